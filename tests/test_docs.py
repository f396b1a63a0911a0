"""The pages under docs/ are true: links lead somewhere, examples run, nothing public is missing."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import memdb
from memdb import errors
from tests.support.markdown import ROOT, broken_links, pages, run_python

DOCS = ROOT / "docs"
ROOMS = ("memdb", "serializers", "indexes", "storage")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and anchor of a page exists."""
    assert broken_links(page) == []


@pytest.mark.parametrize("page", sorted((DOCS / "guide").glob("*.md")), ids=lambda page: page.stem)
def test_guide_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a guide run in order, and there are some."""
    monkeypatch.chdir(tmp_path)

    assert run_python(page) > 0


def test_every_page_is_reachable() -> None:
    """The index links to every page."""
    index = (DOCS / "index.md").read_text()
    missing = [
        name
        for page in DOCS.rglob("*.md")
        if (name := page.relative_to(DOCS).as_posix()) != "index.md" and f"({name})" not in index
    ]

    assert missing == []


def test_every_error_is_documented() -> None:
    """The page of the errors names each class that memdb raises."""
    text = (DOCS / "errors.md").read_text()
    names = {name for name, _ in inspect.getmembers(errors, inspect.isclass) if "Error" in name}

    assert {name for name in names if f"`{name}`" not in text} == set()


def _messages() -> str:
    """Return every text in the package, a line each, with "…" for what is filled in."""
    lines = []
    for path in [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                ]
                lines.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines.append(node.value.replace("\n", " "))
    return "\n".join(lines)


def test_messages_on_the_page_of_the_errors_exist() -> None:
    """Each message that the page explains stands in the code, up to what is filled in."""
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| message \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    explained = re.findall(r"^\| `(.+?)` \|", "".join(tables), re.MULTILINE)
    messages = _messages()
    missing = [
        message
        for message in explained
        if not re.search(".*".join(map(re.escape, message.split("…"))), messages)
    ]

    assert len(explained) > 30
    assert missing == []


def test_tests_on_the_page_of_the_reliability_exist() -> None:
    """Each test that the page names is there, and it names many."""
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)::([\w:]+)`", text))
    missing = []
    for path, name in sorted(named):
        *classes, function = name.split("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        found: list[ast.AST] = [tree]
        for part in (*classes, function):
            found = [
                node
                for each in found
                for node in ast.iter_child_nodes(each)
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part
            ]
        if not found:
            missing.append(f"{path}::{name}")

    assert len(named) > 40
    assert missing == []


def test_every_reason_of_health_is_documented() -> None:
    """The guide has each name that a reason can have, and no other; so has the docstring."""
    source = (ROOT / "memdb" / "_health.py").read_text(encoding="utf-8")
    given = set(re.findall(r'HealthReason\(\s*"(\w+)"', source))
    guide = (DOCS / "guide" / "durability.md").read_text(encoding="utf-8")
    table = guide.split("| name of the reason |")[1].split("\n\n")[0]

    assert len(given) > 8
    assert given == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert given == set(re.findall(r'``"(\w+)"``', memdb.Health.__doc__ or ""))


def test_every_setting_is_documented() -> None:
    """The guide to opening names each setting."""
    text = (DOCS / "guide" / "opening.md").read_text()
    names = {each.name for each in dataclasses.fields(memdb.Config)}

    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("cls", [memdb.Database, memdb.Collection], ids=lambda cls: cls.__name__)
def test_every_public_method_is_documented(cls: type) -> None:
    """The guide names each public method and attribute of the classes that a user holds."""
    text = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))
    names = {name for name in vars(cls) if not name.startswith("_")}

    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()


def test_every_exported_name_is_documented() -> None:
    """Each name that memdb exports stands somewhere under docs/."""
    text = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))

    assert {name for name in memdb.__all__ if not re.search(rf"\b{name}\b", text)} == set()
