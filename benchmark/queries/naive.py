"""What is right: each shape said once more, over a plain list, without an index or a trick."""

from __future__ import annotations

from typing import Any

_TWO = "r.group == group and r.tier == tier"
_THREE = "r.group == group and r.band == band and r.lane == lane"
_WINDOW = "r.ts > after and r.key_a == key_a and r.key_b == key_b"
_IF = "r.group == group and (code is None or r.code == code)"

# What a row ``r`` must be, with the arguments by their names.
_CONDITIONS = {
    "Unique": "r.code == 43_042",
    "UniqueArg": "r.code == code",
    "UniqueWhere": "r.code == code and r.flag",
    "UniqueArgWhere": "r.code == code and r.score >= least",
    "ListWhere": "r.group == group and r.flag",
    "Range": "low <= r.code < high",
    "OptionalRange": "low <= r.code < high",
    "ListTwoWheres": "r.group == group and r.flag and r.score % 10 == 0",
    "ListThreeWheresSelectiveLast": "r.group == group and r.flag and r.score % 100 == 0",
    "ListTwoArgWheres": "r.group == group and least <= r.id <= most",
    "ListList": _TWO,
    "ListListReversed": _TWO,
    "ListListList": _THREE,
    "ListRange": "r.group == group and low <= r.code < high",
    "ListKeySet": "r.group == group and r.flag",
    "ListLastUpdated": "r.group == group and r.updated > after",
    "Or": "r.group in (group, other)",
    "OrAfterList": "r.group == group and r.code in (code, other)",
    "Match": "[r.code == code, r.group == group, r.group == group and r.flag][mode]",
    "IfTaken": _IF,
    "IfSkipped": _IF,
    "Sort_ListList": _TWO,
    "SortBounded": "r.group == group",
    "SortBounded_ListList": _TWO,
    "ListListListSortBounded": _THREE,
    "TimeWindowListListSortBounded": _WINDOW,
    "TimeRangeSeedOrder": _WINDOW,
    "Top20": "True",
    "Top200": "True",
    "Top20AtEnd": "True",
    "TopHalf": "True",
    "TopAll": "True",
    "Cheapest20of10": "r.category == category",
    "Cheapest100of10": "r.category == category",
    "Cheapest20of100": "r.segment == segment",
    "Cheapest100of100": "r.segment == segment",
}

# The key to sort by; a sort keeps ties in the order of identities.
_ORDERS = {
    "Sort_ListList": "r.score",
    "SortBounded": "r.score",
    "SortBounded_ListList": "r.score",
    "ListListListSortBounded": "r.score & 7",
    "TimeWindowListListSortBounded": "r.score & 7",
    "Top20": "r.score",
    "Top200": "r.score",
    "Top20AtEnd": "r.score",
    "TopHalf": "r.score",
    "TopAll": "r.score",
    "Cheapest20of10": "r.price",
    "Cheapest100of10": "r.price",
    "Cheapest20of100": "r.price",
    "Cheapest100of100": "r.price",
}

_PAGES = {
    "SortBounded": slice(20),
    "SortBounded_ListList": slice(20),
    "ListListListSortBounded": slice(20, 40),
    "TimeWindowListListSortBounded": slice(20, 40),
}


def expected(name: str, rows: list[Any], arguments: dict[str, Any]) -> Any:
    """Return the rows, or the count, that a shape finds among ``rows``, given by identity."""
    short = name.removeprefix("Count_").partition(",")[0]
    names = arguments | {"rows": rows}
    found = eval(f"[r for r in rows if {_CONDITIONS[short]}]", names)
    if name.startswith("Count_"):
        return len(found)
    if short in _ORDERS:
        found.sort(key=eval(f"lambda r: {_ORDERS[short]}"))
    page = _PAGES.get(short, slice(None))
    if "take" in arguments:
        page = slice(arguments["skip"], arguments["skip"] + arguments["take"])
    return found[page]
