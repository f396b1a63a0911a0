"""Reads Markdown far enough to check its links and to run its Python blocks."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<text>.+?)\s*$", re.MULTILINE)
_SHOWN = re.compile(r"^\s*print\(.*\)  # (?P<text>.+)$", re.MULTILINE)

# In front of a block that can't run by itself; the reason follows in the comment.
_NOT_RUN = re.compile(r"<!-- not run: [^>]+-->\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    code: str
    line: int
    is_run: bool


def pages() -> list[Path]:
    """Return the README and every page under docs/."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for found in _FENCE.finditer(text):
        before = text[: found.start()]
        yield Block(
            language=found["language"],
            code=found["code"],
            line=before.count("\n") + 1,
            is_run=_NOT_RUN.search(before) is None,
        )


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere; web addresses are not fetched."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for found in _LINK.finditer(text):
        target = found["target"]
        if re.match(r"^[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        if not other.exists() or (anchor and anchor not in _anchors(other)):
            broken.append(target)
    return broken


def run_python(page: Path) -> int:
    """Run the Python blocks of a page in order, in one module, in the current directory.

    A block with ``>>>`` is a doctest. Of any other, each ``print(...)  # text`` must print its
    text. Returns how many blocks ran.
    """
    module = types.ModuleType(f"page_{page.stem}")
    sys.modules[module.__name__] = module  # Annotations of its classes are looked up there.
    ran = 0
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "python" and block.is_run:
                where = f"{page.relative_to(ROOT)}:{block.line}"
                if ">>> " in block.code:
                    _run_doctest(block.code, module, where)
                else:
                    _run_plain(block.code, module, where)
                ran += 1
    finally:
        del sys.modules[module.__name__]
    return ran


def _run_doctest(code: str, module: types.ModuleType, where: str) -> None:
    examples = doctest.DocTestParser().get_doctest(code, module.__dict__, where, where, 0)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(examples, out=report.write, clear_globs=False)
    module.__dict__.update(examples.globs)
    assert runner.summarize(verbose=False).failed == 0, f"{where}\n{report.getvalue()}"


def _run_plain(code: str, module: types.ModuleType, where: str) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, where, "exec"), module.__dict__)
    promised = [found["text"] for found in _SHOWN.finditer(code)]
    if promised:
        assert shown.getvalue().splitlines() == promised, where


def _anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
