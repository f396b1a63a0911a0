"""Type checkers know what comes out of a collection, and what may go in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).with_name("examples.py")
ROOT = Path(__file__).parents[2]

_EXPECTED = re.compile(r"^[^`]*# error: (?P<code>.+)$")
_FOUND = re.compile(r"examples\.py:(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")


def test_examples(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mypy agrees with the types that the examples assert, and finds their mistakes only."""
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    cache = tmp_path_factory.getbasetemp().parent / "mypy-cache"
    output, errors, _ = api.run(
        ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={cache}", str(EXAMPLES)]
    )
    lines = EXAMPLES.read_text(encoding="utf-8").splitlines()
    marked = ((number, _EXPECTED.match(line)) for number, line in enumerate(lines, 1))
    expected = [(number, match["code"]) for number, match in marked if match]
    reported = map(_FOUND.search, output.splitlines())
    found = [(int(match["line"]), match["code"]) for match in reported if match]

    assert "" == errors
    assert expected == found
