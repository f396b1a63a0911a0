"""Rows as their receiver may have them: copies of what the cache shares, each record once.

The function that copies is generated for the slots of the rows, with the copies of the records'
classes spelled out in it: a call for each would take as long as the copy itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from memdb.query._join import Join, stores_in
from memdb.query._plans import indented

if TYPE_CHECKING:
    from memdb.query._row_source import RowSource

# What the source of a cloner calls; not a field or a key of such a name.
_NAME: Final = re.compile(r"(?<![\w.'\"])_clone_\w+")

Copies = Callable[[list[Any], dict[int, Any]], list[Any]]
Lines = list[Any]


def is_shared(source: RowSource) -> bool:
    """Whether rows hold only what can't be changed, so that they need no copies."""
    return _is_immutable(source.left._store) and all(
        [
            _is_immutable(join.store) if join.nested is None else is_shared(join.nested._store)
            for join in source.joins
        ]
    )


def _is_immutable(store: Any) -> bool:
    return bool(store.cloner.inline_expression == "{r}")


def row_copies(source: RowSource, *, has_owned: bool, is_last: bool) -> Copies:
    """Return the function that makes copies of rows, given them and the owned records by id.

    Args:
        source: What the rows are of.
        has_owned: Some records in them nobody else has.
        is_last: Nobody needs the rows any more, so that these records can be given away.

    Cost: half a millisecond.
    """
    return _Writer(has_owned=has_owned, is_last=is_last).function(source)


class _Writer:
    """Write the function that copies rows."""

    def __init__(self, *, has_owned: bool, is_last: bool) -> None:
        self._has_owned = has_owned
        self._is_last = is_last
        self._names: dict[str, Any] = {}
        self._count = 0
        self._defined: Lines = []

    def function(self, source: RowSource) -> Copies:
        """Return the function."""
        stores = [source.left._store, *stores_in(source.joins)]
        self._slots = Counter(map(id, stores))
        body = self._row(source, "row", "result.append")
        lines: Lines = [
            "def copied(rows, owned):",
            [
                "copies = {}",
                "known = copies.get",
                *self._defined,
                "result = []",
                "for row in rows:",
                body,
                "return result",
            ],
        ]
        exec(compile("\n".join(indented(lines, 0)), "<memdb rows>", "exec"), self._names)
        found: Copies = self._names["copied"]
        return found

    def _row(self, source: RowSource, row: str, give: str, *, is_once: bool = True) -> Lines:
        """Return the lines that copy a row.

        Args:
            source: What it is of.
            row: Its name.
            give: What is called with the copy.
            is_once: What is in its first slot is in no other row.
        """
        number = self._number()
        lines: Lines = [f"a{number} = {row}.{source.first}"]
        lines += self._record(source.left._store, f"a{number}", is_once=is_once)
        values = [f"a{number}"]
        for join in source.joins:
            name = f"a{self._number()}"
            lines.append(f"{name} = {row}.{join.slot}")
            lines += self._slot(join, name, is_once=is_once)
            values.append(name)
        self._names[f"Row{number}"] = source.row
        return [*lines, f"{give}(Row{number}({', '.join(values)}))"]

    def _slot(self, join: Join, name: str, *, is_once: bool) -> Lines:
        """Return the lines that make a slot's content its copy.

        Args:
            join: What is in the slot.
            name: The content.
            is_once: The record in the first slot of the row is in no other row.
        """
        nested = None if join.nested is None else join.nested._store
        if _is_immutable(join.store) if nested is None else is_shared(nested):
            return []
        # What names the identity of the row's record belongs to that row alone.
        is_once = is_once and join.left is None and join.form == "equal"
        if not join.is_many and nested is None:
            return [f"if {name} is not None:", self._record(join.store, name, is_once=is_once)]
        number = self._number()
        if nested is None:
            lines = [*self._record(join.store, "r", is_once=is_once), "return r"]
        else:
            lines = self._row(nested, "r", "return ", is_once=is_once)
        self._defined += [f"def copy{number}(r):", lines]
        if not join.is_many:
            return [f"{name} = None if {name} is None else copy{number}({name})"]
        if is_once:
            return [f"{name} = tuple([copy{number}(r) for r in {name}])"]
        # The same tuple belongs to all rows that look up the same.
        return [
            f"t = known(id({name}))",
            "if t is None:",
            [f"t = copies[id({name})] = tuple([copy{number}(r) for r in {name}])"],
            f"{name} = t",
        ]

    def _record(self, store: Any, name: str, *, is_once: bool) -> Lines:
        """Return the lines that make a name that of its record's copy."""
        if _is_immutable(store):
            return []
        if is_once and self._slots[id(store)] == 1:
            return self._copy(store, name)
        return [
            f"k = id({name})",
            "c = known(k)",
            "if c is None:",
            [*self._copy(store, name), f"copies[k] = {name}"],
            "else:",
            [f"{name} = c"],
        ]

    def _copy(self, store: Any, name: str) -> Lines:
        lines = self._plain_copy(store, name)
        if not self._has_owned:
            return lines
        if self._is_last:
            return [f"if id({name}) not in owned:", lines]
        number = self._number()
        self._names[f"cloner{number}"] = store.cloner
        return [
            f"if id({name}) in owned:",
            [f"{name} = cloner{number}({name})"],
            "else:",
            lines,
        ]

    def _plain_copy(self, store: Any, name: str) -> Lines:
        """Return the lines that copy a record of the cache's."""
        cloner, number = store.cloner, self._number()
        # The names of different cloners are the same for different things.
        own = f"_clone{number}_"
        names = {key: key.replace("_clone_", own) for key in cloner.namespace}

        def renamed(source: str) -> str:
            return _NAME.sub(lambda found: names.get(found[0], found[0]), source)

        if cloner.inline_expression is not None or cloner.inline_lines is not None:
            self._names |= {names[key]: value for key, value in cloner.namespace.items()}
        if cloner.inline_expression is not None:
            return [f"{name} = {renamed(cloner.inline_expression).replace('{r}', name)}"]
        if cloner.inline_lines is not None:
            made = f"o{number}"
            lines = [
                renamed(line).replace("{r}", name).replace("{o}", made)
                for line in cloner.inline_lines
            ]
            return [*lines, f"{name} = {made}"]
        self._names[f"clone{number}"] = cloner.clone
        return [f"{name} = clone{number}({name})"]

    def _number(self) -> int:
        self._count += 1
        return self._count
