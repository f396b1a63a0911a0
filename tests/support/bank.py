"""A bank in four collections: transfers that keep sums over all of them, and joins that look."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import memdb
from memdb import F, P

# What a transfer keeps: the cents of a branch are those of its accounts, the cents of an account
# those of its entries; an account has the number that its one card has, and its branch lists it.


@dataclass
class Branch:
    cents: int
    account_ids: list[int]
    id: int = 0


@dataclass
class Account:
    branch_id: int
    cents: int
    number: int
    id: int = 0


@dataclass
class Entry:
    account_id: int
    cents: int
    id: int = 0


@dataclass
class Card:
    account_id: int
    number: int
    id: int = 0


@dataclass(frozen=True)
class FrozenBranch:
    cents: int
    account_ids: tuple[int, ...]
    id: int = 0


@dataclass(frozen=True)
class FrozenAccount:
    branch_id: int
    cents: int
    number: int
    id: int = 0


@dataclass(frozen=True)
class FrozenEntry:
    account_id: int
    cents: int
    id: int = 0


@dataclass(frozen=True)
class FrozenCard:
    account_id: int
    number: int
    id: int = 0


BRANCHES, ACCOUNTS, CENTS = 3, 12, 100
TOTAL = ACCOUNTS * CENTS
CLASSES: dict[str, tuple[Any, ...]] = {
    "mutable": (Branch, Account, Entry, Card),
    "frozen": (FrozenBranch, FrozenAccount, FrozenEntry, FrozenCard),
}
INDEXES: dict[str, Callable[[], dict[str, list[Any]]]] = {
    "none": dict,
    "hash": lambda: {
        "accounts": [memdb.HashIndex("branch_id"), memdb.HashIndex("number")],
        "entries": [memdb.HashIndex("account_id")],
        "cards": [memdb.HashIndex("account_id", unique=True)],
        "branches": [memdb.SetIndex("account_ids")],
    },
    "sorted": lambda: {
        "accounts": [memdb.SortedIndex("branch_id", "-cents"), memdb.SortedIndex("cents")],
        "entries": [memdb.SortedIndex("account_id")],
        "cards": [memdb.SortedIndex("number")],
    },
}


class Bank:
    """The collections, transfers between them, and questions that transfers must not disturb."""

    def __init__(
        self,
        db: memdb.Database | memdb.View,
        kind: str = "mutable",
        indexes: str = "none",
        cache: Any = "all",
    ) -> None:
        self.db = db
        self.pause_s = 0.0
        declared = INDEXES[indexes]()
        self.classes = CLASSES[kind]
        names = ("branches", "accounts", "entries", "cards")
        found: list[Any] = [
            db.collection(cls, name=name, cache=cache, indexes=declared.get(name, ()))
            for cls, name in zip(self.classes, names, strict=True)
        ]
        self.branches, self.accounts, self.entries, self.cards = found
        self.prepared = (
            self.branches.where(F.id == P.id)
            .join_many(
                self.accounts,
                back=F.branch_id,
                then=lambda q: q.join_many(self.entries, back=F.account_id),
            )
            .prepare()
        )
        self.rich = (
            self.accounts.where(F.cents >= P.least)
            .join(self.branches, on=F.branch_id, how="inner", as_="branch")
            .order_by("-accounts.cents")
            .prepare()
        )

    def fill(self) -> None:
        """Insert all of it as one commit."""
        assert isinstance(self.db, memdb.Database)
        branch, account, entry, card = self.classes
        with self.db.transaction():
            for place in range(BRANCHES):
                ids = range(place + 1, ACCOUNTS + 1, BRANCHES)
                self.branches.insert(branch(len(ids) * CENTS, self.listed(ids)))
            for place in range(ACCOUNTS):
                self.accounts.insert(account(place % BRANCHES + 1, CENTS, place))
                self.entries.insert(entry(place + 1, CENTS))
                self.cards.insert(card(place + 1, place))

    def listed(self, ids: Any) -> Any:
        """Return identities as a branch has them."""
        return tuple(ids) if self.classes[0] is FrozenBranch else list(ids)

    def transfer(self, chance: random.Random) -> None:
        """Move cents between two accounts, swap their branches and numbers, give new cards."""
        assert isinstance(self.db, memdb.Database)
        one, other = chance.sample(range(1, ACCOUNTS + 1), 2)
        branch, account, entry, card = self.classes
        with self.db.transaction():
            first, second = self.accounts[one], self.accounts[other]
            cents = chance.randint(0, first.cents)
            self.accounts.update(
                one, account(second.branch_id, first.cents - cents, second.number, one)
            )
            self.accounts.update(
                other, account(first.branch_id, second.cents + cents, first.number, other)
            )
            # So that others ask in the middle of transactions.
            time.sleep(self.pause_s)
            if chance.random() < 0.3:
                # All entries of an account in one.
                self.entries.where(account_id=one).delete()
                self.entries.insert(entry(one, first.cents - cents))
            else:
                self.entries.insert(entry(one, -cents))
            self.entries.insert(entry(other, cents))
            time.sleep(self.pause_s)
            for identity, number in ((one, second.number), (other, first.number)):
                self.cards.where(account_id=identity).delete()
                self.cards.insert(card(identity, number))
            for identity in {first.branch_id, second.branch_id}:
                own = self.accounts.where(branch_id=identity).all()
                ids = [each.id for each in own]
                chance.shuffle(ids)
                self.branches.update(
                    identity, branch(sum(each.cents for each in own), self.listed(ids), identity)
                )

    def check(self, chance: random.Random) -> None:
        """Check answers of some kinds of joins against what transfers keep."""
        for look in chance.sample(self.looks, 3):
            look(self, chance)

    def check_all(self, chance: random.Random) -> None:
        """Check answers of all kinds."""
        for look in self.looks:
            look(self, chance)

    def look_many(self, chance: random.Random) -> None:
        """The accounts of each branch."""
        rows = self.branches.where().join_many(self.accounts, back=F.branch_id).all()
        assert TOTAL == sum(row.branches.cents for row in rows)
        for branch, accounts in rows:
            assert branch.cents == sum(account.cents for account in accounts)
            assert sorted(branch.account_ids) == [account.id for account in accounts]

    def look_list(self, chance: random.Random) -> None:
        """The accounts that each branch lists, in its order."""
        rows = self.branches.where().join_many(self.accounts, on=F.account_ids).all()
        for branch, accounts in rows:
            assert list(branch.account_ids) == [account.id for account in accounts]
            assert {branch.id} >= {account.branch_id for account in accounts}

    def look_elements(self, chance: random.Random) -> None:
        """The branch that lists each account."""
        for how in ("left", "inner"):
            query = self.accounts.where().join(
                self.branches, back=F.account_ids, how=how, as_="branch"
            )
            rows = query.all()
            assert ACCOUNTS == len(rows) == query.count()
            assert all(account.branch_id == branch.id for account, branch in rows)

    def look_back(self, chance: random.Random) -> None:
        """The card of each account: always one, and of its number."""
        query = self.accounts.where().join(self.cards, back=F.account_id, how="inner", as_="card")
        rows = query.all()
        assert ACCOUNTS == len(rows) == query.count() == len({row.card.id for row in rows})
        assert all(account.number == card.number for account, card in rows)

    def look_pair(self, chance: random.Random) -> None:
        """The same by number, and the other way round."""
        rows = self.cards.where().join(self.accounts, on=(F.number, F.number), as_="account").all()
        assert ACCOUNTS == len(rows)
        assert all(card.account_id == account.id for card, account in rows)

    def look_nested(self, chance: random.Random) -> None:
        """Accounts and their entries in each branch, and in one that is asked for."""
        query = self.branches.where().join_many(
            self.accounts,
            back=F.branch_id,
            then=lambda q: q.join_many(self.entries, back=F.account_id),
        )
        for rows in (self.prepared(id=chance.randint(1, BRANCHES)), query.all()):
            for branch, accounts in rows:
                assert branch.cents == sum(row.accounts.cents for row in accounts)
                for account, entries in accounts:
                    assert account.cents == sum(entry.cents for entry in entries)

    def look_chained(self, chance: random.Random) -> None:
        """From an account to its branch, its card and its entries; all in one row."""
        query = (
            self.accounts.where()
            .join(self.branches, on=F.branch_id, as_="branch")
            .join(self.cards, back=F.account_id, as_="card")
            .join_many(self.entries, back=F.account_id)
        )
        rows = query.order_by("-branch.cents", "card.number").all()
        assert ACCOUNTS == len(rows)
        sums: dict[int, int] = {}
        for account, branch, card, entries in rows:
            assert account.number == card.number
            assert account.cents == sum(entry.cents for entry in entries)
            sums[branch.id] = sums.get(branch.id, 0) + account.cents
        assert all(sums[branch.id] == branch.cents for _, branch, _, _ in rows)
        assert TOTAL == sum(sums.values())

    def look_at_values(self, chance: random.Random) -> None:
        """Sums and groups are of one commit, too."""
        joined = self.accounts.where().join(self.branches, on=F.branch_id, as_="branch")
        assert TOTAL == joined.sum("cents") == sum(joined.values("cents"))
        groups = joined.group_by(F.branch.id).select(
            F.branch.cents.min_(), F.branch.cents.max_(), F.cents.sum_()
        )
        for least, greatest, total in groups:
            assert least == greatest == total
        assert ACCOUNTS == len(joined.where(F.branch.cents >= F.cents).all())

    def look_ordered(self, chance: random.Random) -> None:
        """A prepared query in an order, and pages."""
        rows = self.rich(least=0)
        assert ACCOUNTS == len(rows)
        assert TOTAL == sum(account.cents for account, _ in rows)
        cents = [account.cents for account, _ in rows]
        assert sorted(cents, reverse=True) == cents
        page = (
            self.accounts.where()
            .join(self.branches, on=F.branch_id, as_="branch")
            .order_by("-cents")
            .page(0, 4)
        )
        assert (4, ACCOUNTS) == (len(page), page.total)
        for account, branch in page:
            assert account.id in branch.account_ids

    def look_at_itself(self, chance: random.Random) -> None:
        """A collection that is joined with itself is in one state on both sides."""
        same, neighbours = (query.all() for query in self.self_joins())
        assert all(account == other for account, other in same)
        sums = {
            account.branch_id: sum(each.cents for each in others) for account, others in neighbours
        }
        assert TOTAL == sum(sums.values())
        assert TOTAL == sum(account.cents for account, _ in neighbours)

    def self_joins(self) -> list[Any]:
        """Return the accounts with themselves, and with those of their branch."""
        accounts = self.accounts.where()
        return [
            accounts.join(self.accounts, on=F.id, as_="same"),
            accounts.join_many(self.accounts, on=(F.branch_id, F.branch_id), as_="neighbours"),
        ]

    looks = (
        look_many,
        look_list,
        look_elements,
        look_back,
        look_pair,
        look_nested,
        look_chained,
        look_at_values,
        look_ordered,
        look_at_itself,
    )
