"""Queries beside writers: each answer is of one commit, whatever index it comes from."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import memdb
from memdb import F, P
from tests.support.concurrently import and_then, run_all, switching_often, until


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns often."""
    with switching_often():
        yield


@dataclass
class Account:
    """Belongs to a branch; its cents move, in transactions, to others."""

    branch: str
    cents: int
    number: int
    tags: list[str] = field(default_factory=list)
    id: int = 0


@dataclass(frozen=True)
class FrozenAccount:
    branch: str
    cents: int
    number: int
    tags: tuple[str, ...] = ()
    id: int = 0


ACCOUNTS = 60
BRANCHES = ("a", "b", "c")
CENTS = 100
TOTAL = ACCOUNTS * CENTS
INDEXES: dict[str, Callable[[], list[Any]]] = {
    "none": list,
    "hash": lambda: [memdb.HashIndex("branch")],
    "sorted": lambda: [memdb.SortedIndex("cents"), memdb.SortedIndex("branch", "-cents")],
    "set": lambda: [memdb.SetIndex("tags")],
    "column": lambda: [memdb.ColumnIndex("cents", name="column")],
    "partial": lambda: [memdb.SortedIndex("number", where=F.branch == "a")],
    "all": lambda: [
        memdb.HashIndex("branch"),
        memdb.SortedIndex("cents"),
        memdb.SetIndex("tags"),
        memdb.HashIndex("number", unique=True, name="u"),
        memdb.ColumnIndex("cents", name="column"),
    ],
}
SETTINGS: list[dict[str, Any]] = [{}, {"cache": "none"}, {"cache": 10}]


def account_of(cls: Any, branch: str, cents: int, number: int) -> Any:
    """Return an account whose tags say the same as its branch."""
    return cls(branch, cents, number, [branch] if cls is Account else (branch,))


def fill(accounts: memdb.Collection[Any], cls: Any) -> None:
    """Insert accounts, as many in each branch."""
    accounts.insert_many([account_of(cls, BRANCHES[n % 3], CENTS, n) for n in range(ACCOUNTS)])


def transfer(db: memdb.Database, accounts: memdb.Collection[Any], chance: random.Random) -> None:
    """Move cents between two accounts, and swap their branches and numbers."""
    one, other = chance.sample(range(1, ACCOUNTS + 1), 2)
    with db.transaction():
        first, second = accounts[one], accounts[other]
        cents = chance.randint(0, first.cents)
        cls = type(first)
        changed = (
            account_of(cls, second.branch, first.cents - cents, second.number),
            account_of(cls, first.branch, second.cents + cents, first.number),
        )
        for identity, account in zip((one, other), changed, strict=True):
            accounts.update(identity, account)


class Bank:
    """Asks a collection for what transfers never change."""

    def __init__(self, accounts: memdb.Collection[Any]) -> None:
        self.accounts = accounts
        self.of_branch = accounts.where(F.branch == P.branch).prepare()
        self.richer = accounts.where(F.cents >= P.cents).order_by("-cents").prepare()

    def check(self, chance: random.Random) -> None:
        """Check some answers, each against itself and what must hold in any state."""
        branch = chance.choice(BRANCHES)
        accounts = self.accounts
        size = ACCOUNTS // 3
        for condition in (F.branch == branch, F.tags.contains(branch)):
            query = accounts.where(condition)
            found = query.all()
            assert [branch] * size == [account.branch for account in found]
            assert [(branch,)] * size == [tuple(account.tags) for account in found]
            assert size == query.count() == len(query.ids())
        assert size == self.of_branch.count(branch=branch) == len(self.of_branch(branch=branch))
        assert TOTAL == accounts.query().sum("cents") == accounts.where(F.cents >= 0).sum("cents")
        found = self.richer(cents=0)
        assert TOTAL == sum(account.cents for account in found)
        assert sorted((-account.cents, account.id) for account in found) == [
            (-account.cents, account.id) for account in found
        ]
        found = self.richer(cents=CENTS)
        assert all(account.cents >= CENTS for account in found)
        assert {account.id for account in found} <= set(range(1, ACCOUNTS + 1))
        assert len({account.id for account in found}) == len(found)
        halves = accounts.where((F.branch == "a") | (F.branch == "b")).order_by("number").all()
        assert 2 * size == len({account.number for account in halves})
        page = accounts.where(F.branch == branch).order_by("-cents").page(0, 5)
        assert (5, size) == (len(page), page.total)
        number = chance.randrange(ACCOUNTS)
        assert [number] == [each.number for each in accounts.where(F.number == number)]
        assert 1 == accounts.where(F.number == number).count()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("indexes", INDEXES)
@pytest.mark.parametrize("cls", [Account, FrozenAccount])
def test_each_answer_is_of_one_commit(cls: Any, indexes: str, settings: dict[str, Any]) -> None:
    """Beside transfers every query finds all cents and the right number in each branch."""
    with memdb.open(None) as db:
        accounts = db.collection(cls, indexes=INDEXES[indexes](), **settings)
        fill(accounts, cls)
        bank = Bank(accounts)
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(4)]
        looks = [0, 0]

        def write() -> None:
            turns = 0
            while turns < 100 or (min(looks) < 8 and not is_over.is_set()):
                transfer(db, accounts, chances[0])
                turns += 1

        def look(reader: int) -> None:
            bank.check(chances[reader])
            looks[reader] += 1

        run_all(
            and_then(is_over, write),
            and_then(is_over, until(is_over, lambda: look(0))),
            and_then(is_over, until(is_over, lambda: look(1))),
        )
        bank.check(chances[3])

        assert list(range(ACCOUNTS)) == sorted(account.number for account in accounts)
        assert [] == db.check()


def test_several_collections_agree() -> None:
    """What a transaction moves from one collection to another is always in exactly one."""
    with memdb.open(None) as db:
        indexes = [memdb.HashIndex("branch"), memdb.SortedIndex("number")]
        left = db.collection(Account, name="left", indexes=indexes)
        right = db.collection(Account, name="right", indexes=indexes)
        left.insert_many([Account("a", 1, n) for n in range(30)])
        is_over = threading.Event()

        def move() -> None:
            for turn in range(150):
                source, target = (left, right) if turn % 2 else (right, left)
                with db.transaction():
                    found = source.where(F.branch == "a").order_by("number").limit(7).all()
                    for account in found:
                        source.delete(account.id)
                        target.insert(Account("a", 1, account.number))

        def look() -> None:
            # Two questions are of two states: each must be whole on its own.
            for collection in (left, right):
                numbers = [each.number for each in collection.where(F.branch == "a")]
                assert len(set(numbers)) == len(numbers)
                assert len(numbers) in {"left": (30, 23), "right": (0, 7)}[collection.name]

        run_all(and_then(is_over, move), until(is_over, look), until(is_over, look))

        numbers = [each.number for each in (*left, *right)]
        assert list(range(30)) == sorted(numbers)
        assert 30 == left.where(F.branch == "a").count() + right.where(F.number >= 0).count()


@pytest.mark.parametrize("kind", ["hash", "several", "function", "sorted"])
@pytest.mark.parametrize("is_many", [False, True], ids=["insert", "insert_many"])
def test_exactly_one_of_eight_threads_gets_a_key(kind: str, is_many: bool) -> None:
    """Of 8 threads that insert the same keys exactly one gets each of them."""
    indexes: dict[str, Any] = {
        "hash": lambda: memdb.HashIndex("number", unique=True),
        "several": lambda: memdb.HashIndex("branch", "number", unique=True),
        "function": lambda: memdb.HashIndex(key=lambda each: each.number, name="u", unique=True),
        "sorted": lambda: memdb.SortedIndex("number", unique=True),
    }
    with memdb.open(None) as db:
        accounts = db.collection(Account, indexes=[memdb.HashIndex("cents"), indexes[kind]()])
        won: list[list[int]] = [[] for _ in range(8)]

        def insert(thread: int) -> None:
            numbers = list(range(100))
            random.Random(thread).shuffle(numbers)
            for number in numbers:
                account = Account("a", thread, number)
                with contextlib.suppress(memdb.DuplicateKeyError):
                    if is_many:
                        accounts.insert_many([account])
                    else:
                        accounts.insert(account)
                    won[thread].append(number)

        run_all(*[lambda thread=thread: insert(thread) for thread in range(8)])  # type: ignore[misc]

        assert list(range(100)) == sorted(number for numbers in won for number in numbers)
        assert list(range(100)) == sorted(account.number for account in accounts)
        for thread, numbers in enumerate(won):
            found = accounts.where(F.cents == thread).all()
            assert sorted(numbers) == sorted(account.number for account in found)
        for number in range(100):
            assert 1 == accounts.where(F.branch == "a", F.number == number).count()


def test_a_key_passes_from_hand_to_hand() -> None:
    """Threads that take a unique key by an update, and give it back, never hold it together."""
    with memdb.open(None) as db:
        accounts = db.collection(Account, indexes=[memdb.HashIndex("number", unique=True)])
        accounts.insert_many([Account("a", 0, -thread) for thread in range(1, 5)])
        held = threading.Lock()
        wins = []

        def grab(identity: int) -> None:
            for _ in range(150):
                try:
                    accounts.update(identity, number=7)
                except memdb.DuplicateKeyError:
                    continue
                assert held.acquire(blocking=False), "two records have one key"
                assert [identity] == accounts.where(F.number == 7).ids()
                wins.append(identity)
                held.release()
                accounts.update(identity, number=-identity)

        run_all(*[lambda identity=n: grab(identity) for n in range(1, 5)])  # type: ignore[misc]

        assert wins
        assert [-1, -2, -3, -4] == [account.number for account in accounts]


def test_bulk_updates_beside_each_other() -> None:
    """Bulk updates by a function in several threads lose nothing and tear nothing."""
    with memdb.open(None) as db:
        accounts = db.collection(Account, indexes=INDEXES["all"]())
        fill(accounts, Account)

        def add() -> None:
            for _ in range(10):
                accounts.where(F.branch == "a").update(
                    lambda account: setattr(account, "cents", account.cents + 1)
                )

        def look() -> None:
            found = accounts.where(F.branch == "a").all()
            assert 1 == len({account.cents for account in found})

        is_over = threading.Event()
        run_all(and_then(is_over, lambda: run_all(add, add, add)), until(is_over, look))

        assert [CENTS + 30] * (ACCOUNTS // 3) == [
            account.cents for account in accounts.where(F.branch == "a")
        ]
        assert TOTAL + 30 * (ACCOUNTS // 3) == accounts.query().sum("cents")


def test_indexes_come_and_go_beside_queries() -> None:
    """Answers are right while indexes are added, renamed and dropped."""
    with memdb.open(None) as db:
        accounts = db.collection(Account)
        fill(accounts, Account)
        bank = Bank(accounts)
        is_over = threading.Event()
        chances = [random.Random(seed) for seed in range(3)]

        def change() -> None:
            for _ in range(8):
                for index in INDEXES["all"]():
                    accounts.indexes.add(index)
                    transfer(db, accounts, chances[0])
                for name in list(accounts.indexes):
                    accounts.indexes.rename(name, f"{name} again")
                    transfer(db, accounts, chances[0])
                    accounts.indexes.drop(f"{name} again")

        run_all(
            and_then(is_over, change),
            until(is_over, lambda: bank.check(chances[1])),
            until(is_over, lambda: bank.check(chances[2])),
        )

        assert [] == list(accounts.indexes)
        bank.check(chances[1])
