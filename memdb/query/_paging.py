"""Pages of a query, and the cursors by which the next one goes on."""

from __future__ import annotations

import binascii
import hashlib
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, overload

import msgspec

from memdb.errors import DecodeError, EncodeError, QueryError, shown
from memdb.indexes._order import ABSENT
from memdb.query._ordering import by_identity, identities, keys_of
from memdb.query._reading import column
from memdb.query._values import Order
from memdb.serializers._exact import ExactTier
from memdb.storage import checksum32

if TYPE_CHECKING:
    from memdb._records import Records
    from memdb._scan import Row

T_co = TypeVar("T_co", covariant=True)

_FORM: Final = 1
_CHECKSUM_BYTES: Final = 4
_DIGEST_BYTES: Final = 6


class Page(Sequence[T_co], Generic[T_co]):
    """A part of what a query gives; a sequence of its items.

    Attributes:
        items: What is on the page.
        total: How many the query gives without the page.
        skip: How many are before the page.
        take: The most that there can be on the page; None for all the rest.

    >>> page = Page(["a", "b"], total=7, skip=2, take=2)
    >>> page[0], len(page), page.total
    ('a', 2, 7)
    """

    __slots__ = ("_cursor", "items", "skip", "take", "total")

    def __init__(
        self,
        items: list[T_co],
        *,
        total: int,
        skip: int,
        take: int | None,
        cursor: str | QueryError | None = None,
    ) -> None:
        self.items = items
        self.total = total
        self.skip = skip
        self.take = take
        self._cursor = cursor

    @property
    def cursor(self) -> str | None:
        """Text for `Query.after` that leads to the next page, None when there is none.

        Raises:
            QueryError: The query has no cursors, or a value in its order can't be in one.
        """
        if isinstance(self._cursor, QueryError):
            raise self._cursor
        return self._cursor

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        return self.items[index]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Page):
            return NotImplemented
        mine = (self.items, self.total, self.skip, self.take)
        return mine == (other.items, other.total, other.skip, other.take)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Page({self.items!r}, total={self.total}, skip={self.skip}, take={self.take})"


class Cursor(NamedTuple):
    """A place in an order: behind one record.

    Attributes:
        digest: Of the order.
        values: Of the order's terms for the record.
        identity: The record's.
    """

    digest: bytes
    values: tuple[Any, ...]
    identity: Any


def cursor_after(row: Row, order: Sequence[Order], store: Records) -> str | QueryError:
    """Return the text of the cursor behind a row, or why there is none."""
    if store.key is not None and not order:
        return _no_order(store)
    tier = _tier(store)
    records = [row[1]]
    try:
        values = [column(term.value, records, store.query_shape)[0] for term in order]
        content = msgspec.msgpack.encode(
            [
                _FORM,
                _digest(order, store),
                [[] if value is ABSENT else [tier.to_plain(value)] for value in values],
                tier.to_plain(identities([row], store)[0]),
            ]
        )
    except EncodeError as error:
        return QueryError(
            f"{store.name}: a cursor can't hold a value that the order has there: {error}"
            " Page with skip, or order by something else."
        )
    data = checksum32(content).to_bytes(_CHECKSUM_BYTES, "little") + content
    return binascii.b2a_base64(data, newline=False).rstrip(b"=").translate(_TO_URL).decode()


_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")


def read_cursor(text: object, store: Records) -> Cursor:
    """Return what the text of a cursor says.

    Raises:
        QueryError: It is no cursor.
    """
    if not isinstance(text, str):
        raise QueryError(
            f"{store.name}: after() takes the cursor of a page, which is a text, not {shown(text)}."
        )
    try:
        data = text.encode("ascii")
        if text.isascii() and b"+" not in data and b"/" not in data:
            data = binascii.a2b_base64(data.translate(_FROM_URL) + b"=" * (-len(data) % 4))
            content = data[_CHECKSUM_BYTES:]
            if checksum32(content) == int.from_bytes(data[:_CHECKSUM_BYTES], "little"):
                form, digest, values, identity = msgspec.msgpack.decode(content)
                if form == _FORM:
                    tier = _tier(store)
                    found = [tier.from_plain(value[0]) if value else ABSENT for value in values]
                    return Cursor(digest, tuple(found), tier.from_plain(identity))
    except (ValueError, TypeError, LookupError, DecodeError, msgspec.MsgspecError):
        pass
    raise QueryError(
        f"{store.name}: {shown(text)} is not the cursor of a page. Give after() the text as"
        " page.cursor had it."
    )


def check_cursor(cursor: Cursor, order: Sequence[Order], store: Records) -> None:
    """Raise unless a cursor was made for an order.

    Raises:
        QueryError: It was made for another one.
    """
    if store.key is not None and not order:
        raise _no_order(store)
    if cursor.digest != _digest(order, store) or len(cursor.values) != len(order):
        terms = ", ".join(map(repr, order)) or "identity"
        raise QueryError(
            f"{store.name}: the cursor belongs to another order than {terms}. A cursor goes on only"
            " in the order that it was made in: take the first page again."
        )


def rows_after(
    rows: list[Row], cursor: Cursor, order: Sequence[Order], store: Records
) -> list[Row]:
    """Return the rows that are behind a cursor, in the order in which ties stand.

    Raises:
        QueryError: The cursor was made for another order.
    """
    check_cursor(cursor, order, store)
    rows = by_identity(rows, store)
    records = [row[1] for row in rows]
    columns = []
    for term, value in zip(order, cursor.values, strict=True):
        columns.append((keys_of([*column(term.value, records, store.query_shape), value])[0], term))
    ties = keys_of([*identities(rows, store), cursor.identity])[0]
    kept = []
    for place, row in enumerate(rows):
        for keys, term in columns:
            mine, its = keys[place], keys[-1]
            if mine != its:
                if (mine < its) is term.is_descending:
                    kept.append(row)
                break
        else:
            if ties[-1] < ties[place]:
                kept.append(row)
    return kept


def _no_order(store: Records) -> QueryError:
    return QueryError(
        f"{store.name}: without order_by() its records come in the order of their last writing,"
        " which moves on while one pages. Use order_by() with a field, or page with skip."
    )


def _digest(order: Sequence[Order], store: Records) -> bytes:
    """Return what tells orders apart; the same in every process."""
    parts = [store.name, *map(repr, order)]
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


_tiers: weakref.WeakKeyDictionary[Records, ExactTier] = weakref.WeakKeyDictionary()


def _tier(store: Records) -> ExactTier:
    """Return what brings the values of a collection into a form without loss."""
    tier = _tiers.get(store)
    if tier is None:
        tier = _tiers[store] = ExactTier(store.shape)
    return tier
