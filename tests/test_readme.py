"""The README keeps what it promises: its examples run, its commands and its size are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.markdown import ROOT, blocks, run_python

README = ROOT / "README.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example of the README runs and prints what it says."""
    monkeypatch.chdir(tmp_path)

    assert run_python(README) >= 2


def test_first_example_is_short() -> None:
    """The first example writes, closes and reopens in under 15 lines of code."""
    first = next(block for block in blocks(README.read_text()) if block.language == "python")
    lines = [line for line in first.code.splitlines() if line.strip()]

    assert len(lines) < 15
    assert first.code.count("memdb.open(") == 2


def test_is_under_200_lines() -> None:
    """The README stays short enough to be read."""
    assert len(README.read_text().splitlines()) < 200


def test_commands_exist() -> None:
    """Every ``make`` command that the README names is a target of the Makefile."""
    named = set(re.findall(r"\bmake ([a-z]+)", README.read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert {"demo", "test"} <= named
    assert named <= targets


def test_one_sentence_a_line() -> None:
    """No line of the README holds two sentences."""
    text = re.sub(r"^```.*?^```$", "", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    crowded = [line for line in text.splitlines() if re.search(r"[a-z`)][.?!] [A-Z]", line)]

    assert crowded == []
