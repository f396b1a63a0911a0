"""Changing and deleting what a query finds, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memdb._changes import changed
from memdb._transaction import TransactionScope
from memdb.errors import QueryError, RecordTypeError, TransactionError, shown
from memdb.indexes._order import ABSENT
from memdb.query._reading import column
from memdb.query._values import Value

if TYPE_CHECKING:
    from memdb._scan import Row
    from memdb._store import Store


def update_rows(
    store: Store, find: Callable[[], list[Row]], change: Any, fields: dict[str, Any]
) -> int:
    """Change records as one commit and return how many are written.

    Args:
        store: The collection.
        find: Finds them, once no other writer can change them any more.
        change: A function that is given a copy, as `Collection.update` takes it, or None.
        fields: New values of fields, or expressions, which are calculated from the old record.

    Raises:
        QueryError: There is nothing to change, or an expression has no value for a record.
        MemdbError: As `Collection.update`.
    """
    engine = store.engine
    engine.refuse_change()
    if change is None and not fields:
        raise QueryError(
            f"{store.name}: update() was given nothing to change. Name fields, as in"
            " update(age=18), or give a function."
        )
    if change is not None and (not callable(change) or store.members.find(type(change))):
        raise RecordTypeError(
            f"{store.name}: the update() of a query takes a function that changes a record, not"
            f" {shown(change)}. A single record is replaced by the collection's update()."
        )
    calculated = {name: value for name, value in fields.items() if isinstance(value, Value)}
    with TransactionScope(engine):
        made = []
        # All is made before the first is written, so that the function sees none of it.
        for number, record, _ in find():
            identity = store.identity_of(number, record)
            state = store.current_state(identity)
            values = fields
            if calculated:
                values = fields | _calculated(store, identity, state.record, calculated)
            made.append((state, *changed(store, identity, state, change, values)))
        written = 0
        for state, record, member in made:
            outcome = store.replace(state, record, member)
            if outcome is None:
                raise TransactionError(
                    f"{store.name}: the function of update() itself changed a record that the"
                    " query changes. Nothing was written. Return the new record instead."
                )
            written += outcome
    return written


def delete_rows(store: Store, find: Callable[[], list[Row]]) -> int:
    """Delete records as one commit and return how many there were; see `update_rows`."""
    engine = store.engine
    engine.refuse_change()
    with TransactionScope(engine):
        rows = find()
        identities = [store.identity_of(number, record) for number, record, _ in rows]
        store.delete_many([number for number, _, _ in rows], identities)
    return len(rows)


def _calculated(
    store: Store, identity: Any, record: Any, values: dict[str, Value]
) -> dict[str, Any]:
    made = {}
    for name, value in values.items():
        made[name] = column(value, [record], store.query_shape)[0]
        if made[name] is ABSENT:
            raise QueryError(
                f"{store.name}: record {shown(identity)} has no value for {value!r}, which update()"
                f" sets {name!r} to. Leave such records out with where(), or use a function."
            )
    return made
