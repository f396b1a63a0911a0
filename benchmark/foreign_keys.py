"""What checked foreign keys cost: ``python -m benchmark.foreign_keys [records] [rounds]``.

The same records in a collection without a foreign key and in one with it, in turns; the least of
the rounds, in microseconds a record. The database is in memory, as the file is not what differs.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import memdb

_PER_CUSTOMER = 20


@dataclass
class Customer:
    """What is referred to."""

    name: str
    id: int = 0


@dataclass
class Plain:
    """An order without a foreign key."""

    customer_id: int | None
    count: int = 0
    id: int = 0


@dataclass
class Restricting:
    """An order whose customer can't go."""

    customer_id: Annotated[int | None, memdb.ForeignKey(Customer, "restrict")]
    count: int = 0
    id: int = 0


@dataclass
class Cascading:
    """An order that goes with its customer."""

    customer_id: Annotated[int | None, memdb.ForeignKey(Customer, "cascade")]
    count: int = 0
    id: int = 0


@dataclass
class Loose:
    """An order that stays without its customer."""

    customer_id: Annotated[int | None, memdb.ForeignKey(Customer, "set_none")]
    count: int = 0
    id: int = 0


@dataclass
class KeyedCustomer:
    """What is referred to by a text."""

    code: str


@dataclass
class Keyed:
    """An order that refers to a natural key."""

    customer: Annotated[str, memdb.ForeignKey(KeyedCustomer, "restrict")]
    count: int = 0
    id: int = 0


def main() -> int:
    """Print a table of times."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    forms: dict[str, Callable[[int], dict[str, float]]] = {
        "no key": _writes(Plain, Customer),
        "checked": _writes(Restricting, Customer),
        "checked, to a natural key": _writes(Keyed, KeyedCustomer),
    }
    ends = {"by hand": Plain, '"cascade"': Cascading, '"set_none"': Loose}
    for _ in range(rounds):
        for form, run in forms.items():
            for operation, seconds in run(count).items():
                times[operation][form].append(seconds / count * 1e6)
        for form, cls in ends.items():
            times["a record that goes with its customer"][form].append(
                _end(cls, count) / count * 1e6
            )
    for operation, found in times.items():
        figures = [f"{form} {min(each):.2f}" for form, each in found.items()]
        print(f"{operation}: {', '.join(figures)}")
    return 0


def _writes(cls: Any, target: Any) -> Callable[[int], dict[str, float]]:
    def run(count: int) -> dict[str, float]:
        found: dict[str, float] = {}
        is_keyed = target is KeyedCustomer
        values = [f"c{n}" if is_keyed else n + 1 for n in range(count // _PER_CUSTOMER)]
        with memdb.open(None) as db:
            customers = db.collection(target, key="code" if is_keyed else None)
            customers.insert_many([target(str(value)) for value in values])
            orders: Any = db.collection(cls)
            orders.insert(cls(values[0]))
            records = [cls(values[n % len(values)], n) for n in range(count)]

            def insert() -> None:
                for record in records:
                    orders.insert(record)

            def insert_in_a_transaction() -> None:
                with db.transaction():
                    insert()

            def update() -> None:
                for identity in range(1, count + 1):
                    orders.update(identity, count=-identity)

            def delete() -> None:
                for identity in range(1, count + 1):
                    orders.delete(identity)

            found["insert"] = _timed(insert)
            found["insert_many"] = _timed(lambda: orders.insert_many(records))
            found["insert, all in a transaction"] = _timed(insert_in_a_transaction)
            found["update"] = _timed(update)
            found["delete"] = _timed(delete)
        return found

    return run


def _end(cls: Any, count: int) -> float:
    """Return how long it takes until all customers are gone, one by one, with their orders."""
    with memdb.open(None) as db:
        customers = db.collection(Customer)
        identities = customers.insert_many([Customer("x")] * (count // _PER_CUSTOMER))
        orders: Any = db.collection(cls, indexes=[memdb.HashIndex("customer_id")])
        orders.insert_many([cls(identities[n % len(identities)], n) for n in range(count)])
        orders.find(customer_id=1)

        def delete() -> None:
            for identity in identities:
                if cls is Plain:
                    with db.transaction():
                        orders.where(customer_id=identity).delete()
                        customers.delete(identity)
                else:
                    customers.delete(identity)

        return _timed(delete)


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
