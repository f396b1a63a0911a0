"""Transactions and savepoints: all or nothing, over all collections."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import F


@dataclass
class Account:
    owner: str
    cents: int = 0
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass
class Entry:
    text: str
    id: int = 0


@dataclass
class Bank:
    """A database with two collections."""

    db: memdb.Database
    accounts: memdb.Collection[Account]
    entries: memdb.Collection[Entry]

    def state(self) -> list[Any]:
        """Return everything, to compare."""
        return [dict(self.accounts.items()), dict(self.entries.items())]

    def versions(self) -> int:
        """Return how many versions the file has."""
        return self.db.stats().versions


@pytest.fixture(params=["all", "none", 1])
def bank(db: memdb.Database, request: pytest.FixtureRequest) -> Iterator[Bank]:
    """Ann with 100 and Bob with 0, under each cache policy."""
    accounts = db.collection(Account, cache=request.param)
    accounts.insert_many([Account("Ann", 100), Account("Bob")])
    yield Bank(db, accounts, db.collection(Entry, cache=request.param))


class TestCommit:
    def test_keeps_all(self, bank: Bank) -> None:
        """At the end of the block all changes are there, in all collections."""
        with bank.db.transaction():
            bank.accounts.update(1, cents=40)
            bank.accounts.update(2, cents=60)
            bank.entries.insert(Entry("60 to Bob"))
            bank.accounts.insert(Account("Cid"))

        assert [40, 60, 0] == [each.cents for each in bank.accounts]
        assert [Entry("60 to Bob", 1)] == list(bank.entries)

    def test_is_one_commit(self, tmp_path: Path) -> None:
        """A transaction is one commit: its versions have one time and survive together."""
        with memdb.open(tmp_path / "a") as db:
            accounts, entries = db.collection(Account), db.collection(Entry)
            with db.transaction():
                accounts.insert(Account("Ann"))
                entries.insert(Entry("new"))
            times = {accounts.history(1)[0].time, entries.history(1)[0].time}
        with memdb.open(tmp_path / "a") as db:
            assert [Account("Ann", id=1)] == list(db.collection(Account))
            assert [Entry("new", 1)] == list(db.collection(Entry))

        assert 1 == len(times)

    def test_of_nothing(self, bank: Bank) -> None:
        """A transaction that changes nothing writes nothing."""
        before = bank.versions()
        with bank.db.transaction():
            list(bank.accounts)

        assert before == bank.versions()

    def test_only_the_outcome_is_written(self, bank: Bank) -> None:
        """What was changed and changed back, or came and went, makes no version."""
        before = bank.versions()
        with bank.db.transaction():
            bank.accounts.update(1, cents=1)
            bank.accounts.update(1, cents=100)
            identity = bank.entries.insert(Entry("gone"))
            bank.entries.delete(identity)
            bank.accounts.delete(2)
            bank.accounts.insert(Account("Bob", id=2))

        assert before == bank.versions()

    def test_many_changes_of_one_record(self, bank: Bank) -> None:
        """A record that was changed often makes one version."""
        before = bank.versions()
        with bank.db.transaction():
            for cents in range(10):
                bank.accounts.update(1, cents=cents)

        assert (before + 1, 9) == (bank.versions(), bank.accounts[1].cents)

    def test_first_use_of_a_collection(self, db: memdb.Database) -> None:
        """A collection may be made inside; it is in the file with its first commit."""
        with db.transaction():
            identity = db.collection("log").insert({"a": 1})
            assert [] == db.collections()

        assert ["log"] == db.collections()
        assert {"a": 1, "id": 1} == db.collection("log")[identity]


class TestRollback:
    def test_drops_all(self, bank: Bank) -> None:
        """When the block raises, nothing has happened, and the error goes on."""
        before, versions = bank.state(), bank.versions()
        with pytest.raises(ZeroDivisionError), bank.db.transaction():
            bank.accounts.update(1, cents=40)
            bank.accounts.delete(2)
            bank.accounts.insert_many([Account("Cid"), Account("Dan", id=77)])
            bank.accounts.put(Account("Eve", id=50))
            with bank.accounts.edit(1) as account:
                account.tags.append("x")
            bank.entries.insert(Entry("60 to Bob"))
            bank.entries.clear()
            raise ZeroDivisionError

        assert (before, versions) == (bank.state(), bank.versions())
        assert Account("Ann", 100, id=1) == bank.accounts[1] == bank.accounts.get(1)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
    def test_by_any_exception(self, bank: Bank, error: type[BaseException]) -> None:
        """Also by those that are no Exception."""
        with pytest.raises(error), bank.db.transaction():
            bank.accounts.clear()
            raise error

        assert 2 == len(bank.accounts)

    def test_refused_change_does_not_end_it(self, bank: Bank) -> None:
        """An error that is caught inside leaves the other changes alone."""
        with bank.db.transaction():
            bank.accounts.update(1, cents=1)
            with pytest.raises(memdb.EncodeError):
                bank.accounts.update(1, owner=object())
            with pytest.raises(memdb.DuplicateIdentityError):
                bank.accounts.insert(Account("x", id=2))
            with pytest.raises(memdb.DuplicateIdentityError):
                bank.accounts.insert_many([Account("y"), Account("x", id=2)])
            with pytest.raises(memdb.RecordNotFoundError):
                bank.accounts.delete(99)
            with pytest.raises(memdb.RecordTypeError):
                bank.accounts.insert(Entry("x"))  # type: ignore[arg-type]

        assert [Account("Ann", 1, id=1), Account("Bob", id=2)] == list(bank.accounts)

    def test_leaves_no_collection(self, db: memdb.Database) -> None:
        """A collection whose first records were rolled back is not in the file."""
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.collection("log").insert({"a": 1})
            raise ZeroDivisionError

        assert [] == db.collections()
        assert 1 == db.collection("log").insert({"b": 1})


class TestReadingInside:
    def test_sees_own_changes(self, bank: Bank) -> None:
        """Every way of reading sees what was changed inside."""
        accounts = bank.accounts
        list(accounts)
        with bank.db.transaction():
            accounts.update(1, cents=1)
            accounts.delete(2)
            cid = accounts.insert(Account("Cid", 3))
            accounts.insert(Account("Low", id=10**9))
            accounts.delete(10**9)

            assert (1, None) == (accounts[1].cents, accounts.get(2))
            assert [True, False, True] == [each in accounts for each in (1, 2, cid)]
            assert [1, cid] == accounts.ids() == [each.id for each in accounts]
            assert [1, cid] == [i for i, _ in accounts.items()]
            assert 2 == len(accounts) == accounts.count()
            assert [1, cid] == [each.id for each in accounts.find_all(F.cents > 0)]
            assert 1 == accounts.count(owner="Cid") == accounts.count(lambda a: a.cents == 1)
            assert accounts.find(owner="Bob") is None
            assert accounts.exists(owner="Cid")
            with pytest.raises(memdb.RecordNotFoundError):
                accounts[2]
            with pytest.raises(memdb.DuplicateIdentityError):
                accounts.insert(Account("x", id=cid))
            assert (cid, "unchanged") == accounts.put(Account("Cid", 3, id=cid))
            assert not accounts.update(1, cents=1)
            assert 2 == accounts.clear()
            assert ([], 0) == (list(accounts), len(accounts))

    def test_results_are_copies(self, bank: Bank) -> None:
        """What is read of changed records is a copy, too."""
        with bank.db.transaction():
            bank.accounts.update(1, tags=["a"])
            for read in (bank.accounts.get, lambda i: next(iter(bank.accounts))):
                account = read(1)
                assert account is not None
                account.tags.append("b")
                assert ["a"] == bank.accounts[1].tags

    def test_order_is_by_identity(self, bank: Bank) -> None:
        """Changed and unchanged records are mixed in order of identity."""
        bank.accounts.insert(Account("far", id=100))
        with bank.db.transaction():
            bank.accounts.insert(Account("middle", id=50))
            bank.accounts.update(1, cents=1)

            assert [1, 2, 50, 100] == [each.id for each in bank.accounts]

    def test_iteration_is_over_the_start(self, bank: Bank) -> None:
        """An iteration shows the transaction as it was when it began, even after its end."""
        with bank.db.transaction():
            bank.accounts.update(1, cents=1)
            started = iter(bank.accounts)
            bank.accounts.update(1, cents=2)
            bank.accounts.update(2, cents=2)
            bank.accounts.insert(Account("Cid"))

        assert [1, 0] == [each.cents for each in started]

    def test_stats_and_check_are_of_the_file(self, bank: Bank) -> None:
        """Maintenance inside a transaction sees the committed state."""
        with bank.db.transaction():
            bank.accounts.clear()

            assert 2 == bank.accounts.stats().live.count
            assert [] == bank.db.check()
            bank.db.flush()
            bank.db.checkpoint()
        assert 0 == bank.accounts.stats().live.count


class TestIdentities:
    def test_continue(self, bank: Bank) -> None:
        """Identities go on from the file's, and afterwards from the transaction's."""
        with bank.db.transaction():
            assert 3 == bank.accounts.insert(Account("Cid"))
            assert [4, 5] == bank.accounts.insert_many([Account("Dan"), Account("Eve")])
            bank.accounts.insert(Account("Far", id=10**7))
            assert 10**7 + 1 == bank.accounts.insert(Account("Gil"))

        assert 10**7 + 2 == bank.accounts.insert(Account("Hal"))

    def test_are_not_reused_inside(self, bank: Bank) -> None:
        """An identity given in a savepoint that was rolled back is not given again inside."""
        with bank.db.transaction():
            with pytest.raises(ZeroDivisionError), bank.db.transaction():
                bank.accounts.insert(Account("Cid"))
                raise ZeroDivisionError
            assert 4 == bank.accounts.insert(Account("Dan"))

        assert [1, 2, 4] == bank.accounts.ids()

    def test_duplicate_in_insert_many(self, bank: Bank) -> None:
        """A duplicate keeps all of the call out, and only that call."""
        with bank.db.transaction():
            with pytest.raises(memdb.DuplicateIdentityError):
                bank.accounts.insert_many([Account("a", id=5), Account("b", id=5)])
            assert [1, 2] == bank.accounts.ids()


class TestSavepoints:
    def test_inner_rollback(self, bank: Bank) -> None:
        """An inner block that raises drops its own changes only."""
        with bank.db.transaction():
            bank.accounts.update(1, cents=1)
            bank.entries.insert(Entry("outer"))
            with pytest.raises(ZeroDivisionError), bank.db.transaction():
                bank.accounts.update(1, cents=2)
                bank.accounts.update(2, cents=2)
                bank.accounts.delete(2)
                bank.entries.clear()
                assert 2 == bank.accounts[1].cents
                raise ZeroDivisionError
            assert [1, 0] == [each.cents for each in bank.accounts]
            assert (1, 1) == (bank.accounts[1].cents, len(bank.entries))
            bank.accounts.update(2, cents=3)

        assert [1, 3] == [each.cents for each in bank.accounts]
        assert [Entry("outer", 1)] == list(bank.entries)

    def test_outer_rollback(self, bank: Bank) -> None:
        """An outer block that raises drops what inner ones kept."""
        before = bank.state()
        with pytest.raises(ZeroDivisionError), bank.db.transaction():
            with bank.db.transaction():
                bank.accounts.clear()
            assert 0 == len(bank.accounts)
            raise ZeroDivisionError

        assert before == bank.state()

    def test_any_depth(self, bank: Bank) -> None:
        """Savepoints nest to any depth, each undone alone."""

        def descend(depth: int) -> None:
            if depth == 40:
                return
            try:
                with bank.db.transaction():
                    bank.accounts.insert(Account(str(depth)))
                    descend(depth + 1)
                    if depth % 2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass

        with bank.db.transaction():
            descend(0)

        # Level 1 raises, and takes all below with it.
        assert ["Ann", "Bob", "0"] == [each.owner for each in bank.accounts]

    def test_inner_changes_join_the_outer(self, bank: Bank) -> None:
        """Nothing of an inner block is committed before the outermost ends."""
        versions = bank.versions()
        with bank.db.transaction():
            with bank.db.transaction():
                bank.accounts.update(1, cents=5)
            assert versions == bank.versions()

        assert versions + 1 == bank.versions()


class TestMisuse:
    def test_scope_is_used_once(self, bank: Bank) -> None:
        """A transaction can't be entered again, neither inside nor afterwards."""
        scope = bank.db.transaction()
        with scope, pytest.raises(memdb.TransactionError, match="entered before"), scope:
            pass
        with pytest.raises(memdb.TransactionError, match="entered before"), scope:
            pass
        bank.accounts.update(1, cents=1)

        assert 1 == bank.accounts[1].cents

    def test_wrong_order(self, bank: Bank) -> None:
        """Ending the outer one first is refused; nothing of either is kept, others go on."""
        before, versions = bank.state(), bank.versions()
        outer, inner = bank.db.transaction(), bank.db.transaction()
        outer.__enter__()
        bank.accounts.update(1, cents=1)
        inner.__enter__()
        bank.accounts.update(2, cents=2)
        for scope in (outer, inner, outer):
            with pytest.raises(memdb.TransactionError, match="reverse order"):
                scope.__exit__(None, None, None)

        assert (before, versions) == (bank.state(), bank.versions())
        with bank.db.transaction():
            bank.accounts.update(1, cents=5)
        assert 5 == bank.accounts[1].cents

    def test_forgotten_end(self, bank: Bank) -> None:
        """One that is dropped without its end, as an interrupt may do it, is rolled back."""
        before, versions = bank.state(), bank.versions()
        bank.db.transaction().__enter__()

        assert (before, versions) == (bank.state(), bank.versions())
        bank.accounts.update(1, cents=5)
        with bank.db.transaction():
            bank.accounts.update(2, cents=6)
            bank.db.transaction().__enter__()
            bank.accounts.update(2, cents=7)
        assert [5, 7] == [each.cents for each in bank.accounts]

    def test_closing_inside(self, bank: Bank) -> None:
        """Closing the database in a transaction drops it; its end says that it is closed."""
        with pytest.raises(memdb.ClosedError), bank.db.transaction():
            bank.accounts.update(1, cents=1)
            bank.db.close()
            with pytest.raises(memdb.ClosedError):
                bank.accounts.update(1, cents=2)
            with pytest.raises(memdb.ClosedError):
                bank.accounts.get(1)

    def test_closing_inside_leaves_the_file(self, tmp_path: Path) -> None:
        """What was not committed when the database was closed is not in the file."""
        with pytest.raises(memdb.ClosedError), memdb.open(tmp_path / "a") as db:
            accounts = db.collection(Account)
            accounts.insert(Account("Ann"))
            with db.transaction():
                accounts.update(1, cents=1)
                db.close()
        with memdb.open(tmp_path / "a") as db:
            assert db.recovery is None
            assert Account("Ann", id=1) == db.collection(Account)[1]

    def test_two_databases(self, tmp_path: Path) -> None:
        """Transactions of two databases do not touch each other."""
        with memdb.open(tmp_path / "a") as one, memdb.open(tmp_path / "b") as two:
            first, second = one.collection("x"), two.collection("x")
            with pytest.raises(ZeroDivisionError), one.transaction():
                first.insert({"a": 1})
                with two.transaction():
                    second.insert({"a": 1})
                assert 1 == len(second)
                raise ZeroDivisionError

            assert (0, 1) == (len(first), len(second))

    def test_read_only(self, tmp_path: Path) -> None:
        """A reader can't begin one."""
        memdb.open(tmp_path / "a").close()
        with (
            memdb.open(tmp_path / "a", "r") as db,
            pytest.raises(memdb.ReadOnlyError),
            db.transaction(),
        ):
            pass

    def test_append_only(self, tmp_path: Path) -> None:
        """With mode append a transaction takes inserts, and refuses the rest at the call."""
        with memdb.open(tmp_path / "a", "append") as db:
            entries = db.collection(Entry)
            with db.transaction():
                entries.insert(Entry("a"))
                with pytest.raises(memdb.ReadOnlyError):
                    entries.update(1, text="b")
                with pytest.raises(memdb.ReadOnlyError):
                    entries.delete(1)
            assert [Entry("a", 1)] == list(entries)


class TestContexts:
    """Not tied to a thread: what runs in the same context is part of it."""

    def test_generator(self, bank: Bank) -> None:
        """A transaction may be held open by a generator."""

        def steps() -> Iterator[None]:
            with bank.db.transaction():
                bank.accounts.update(1, cents=1)
                yield

        running = steps()
        next(running)
        assert 1 == bank.accounts[1].cents
        running.close()
        assert 100 == bank.accounts[1].cents

    def test_other_context_of_this_thread(self, bank: Bank) -> None:
        """Another context sees the state before; if it writes it gets an error, no deadlock."""

        def other() -> int:
            seen = bank.accounts[1].cents
            assert (100, [100, 0]) == (seen, [each.cents for each in bank.accounts])
            for write in (
                lambda: bank.accounts.insert(Account("x")),
                lambda: bank.accounts.update(2, cents=1),
                lambda: bank.accounts.delete(2),
                lambda: bank.accounts.clear(),
                lambda: bank.db.transaction().__enter__(),
            ):
                with pytest.raises(memdb.TransactionError, match="another task"):
                    write()
            return seen

        outside = contextvars.Context()
        with bank.db.transaction():
            bank.accounts.update(1, cents=1)
            outside.run(other)
            assert 1 == bank.accounts[1].cents

        assert 1 == outside.run(lambda: bank.accounts[1].cents)

    def test_two_tasks(self, bank: Bank) -> None:
        """A task that writes while another one's transaction waits gets an error."""

        async def holder(has_begun: asyncio.Event, may_end: asyncio.Event) -> None:
            with bank.db.transaction():
                bank.accounts.update(1, cents=1)
                has_begun.set()
                await may_end.wait()

        async def main() -> None:
            has_begun, may_end = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(holder(has_begun, may_end))
            await has_begun.wait()
            assert 100 == bank.accounts[1].cents
            with pytest.raises(memdb.TransactionError):
                bank.accounts.update(2, cents=1)
            with pytest.raises(memdb.TransactionError), bank.db.transaction():
                pass
            may_end.set()
            await task
            bank.accounts.update(2, cents=2)

        asyncio.run(main())

        assert [1, 2] == [each.cents for each in bank.accounts]

    def test_child_task_belongs_to_it(self, bank: Bank) -> None:
        """A task begun inside has the context, and so the transaction."""

        async def deposit() -> None:
            bank.accounts.update(1, cents=bank.accounts[1].cents + 1)

        async def main() -> None:
            with bank.db.transaction():
                await asyncio.gather(deposit(), deposit())
                await asyncio.to_thread(bank.accounts.update, 2, cents=7)
                assert 102 == bank.accounts[1].cents
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            asyncio.run(main())
        assert [100, 0] == [each.cents for each in bank.accounts]

    def test_context_that_outlives_it(self, bank: Bank) -> None:
        """After its end, a context that had been copied inside writes on its own."""
        with bank.db.transaction():
            inside = contextvars.copy_context()
        inside.run(bank.accounts.update, 1, cents=5)

        assert 5 == bank.accounts[1].cents
