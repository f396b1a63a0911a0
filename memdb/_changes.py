"""What a change makes of a record: another one, a function's result, new values of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from memdb._config import nearest
from memdb.errors import IdentityError, RecordTypeError, shown

if TYPE_CHECKING:
    from memdb._members import Member
    from memdb._store import Current, Store


def changed(
    store: Store, identity: Any, state: Current, change: Any, fields: dict[str, Any]
) -> tuple[Any, Member]:
    """Return the record with a change and new field values, and its class.

    Args:
        store: The collection.
        identity: The record's.
        state: Where the change begins.
        change: As `Collection.update` takes it.
        fields: New values of fields, set after ``change``.

    Raises:
        RecordTypeError: A field does not exist, or the new record is of another class.
        IdentityError: It has another identity.
    """
    record = state.record
    if change is not None:
        if store.members.find(type(change)) is not None:
            record = change
        elif callable(change):
            result = change(record)
            record = record if result is None else result
        else:
            raise RecordTypeError(
                f"{store.name}: {type(change).__qualname__} is neither a"
                f" {store.shape.name} nor a function that changes one."
            )
    is_own = record is not change
    member = store.member_of(record)
    if fields:
        own = member.shape.identity
        wanted = fields.get(own or "", state.number)
        if own is not None and (type(wanted) is not int or wanted != state.number):
            raise _another_identity(store, identity, wanted)
        record = _with_fields(store, record, fields, member, is_own=is_own)
    if store.key is not None:
        now = store.key.of(record)
        if store.key.encode(now) != store.key.encode(identity):
            raise _another_identity(store, identity, now)
        return record, member
    name = member.shape.identity
    if name is None:
        return record, member
    asked = store.asked_identity(record, member)
    if asked not in (0, state.number):
        raise _another_identity(store, identity, asked)
    if asked == 0 and member.shape.kind == "struct":
        record = record if is_own else store.cloner(record)
        msgspec.structs.force_setattr(record, name, state.number)
    return record, member


def _another_identity(store: Store, identity: Any, wanted: Any) -> IdentityError:
    return IdentityError(
        f"{store.name}: record {shown(identity)} can't become {shown(wanted)}: an identity never"
        " changes. Insert a new record and delete this one, in one transaction."
    )


def _with_fields(
    store: Store, record: Any, fields: dict[str, Any], member: Member, *, is_own: bool
) -> Any:
    shape = member.shape
    if shape.kind == "dict":
        return record | fields
    for name in fields.keys() - member.field_names:
        raise RecordTypeError(
            f"{store.name}: {shape.name} has no field {name!r}.{nearest(name, member.field_names)}"
        )
    if shape.kind == "namedtuple":
        return record._replace(**fields)
    if not is_own:
        record = store.cloner(record)
    set_field = msgspec.structs.force_setattr if shape.kind == "struct" else object.__setattr__
    for name, value in fields.items():
        set_field(record, name, value)
    if shape.kind == "pydantic":
        record.__pydantic_fields_set__.update(fields)
    return record
