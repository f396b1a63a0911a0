"""What is installed is what is in the repository."""

from __future__ import annotations

import configparser
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

import memdb
from memdb import _version

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("indexes", "serializers", "storage")

_ROUND_TRIP = """
import sys, memdb
from dataclasses import dataclass
@dataclass
class Person:
    name: str
    id: int = 0
with memdb.open(sys.argv[1]) as db:
    db.collection(Person).insert(Person("Eric"))
with memdb.open(sys.argv[1]) as db:
    print(db.collection(Person)[1].name, memdb.__file__)
"""


def _setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_every_package_folder_is_listed() -> None:
    """A folder that setup.cfg forgets is left out of the wheel without a word."""
    folders = {"memdb": "memdb"} | {f"memdb.{room}": room for room in ROOMS}
    on_disk = set()
    for package, folder in folders.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            if package != "memdb" or not parts or parts[0] not in ROOMS:
                on_disk.add(".".join((package, *parts)))

    assert on_disk == set(_setup_cfg()["options"]["packages"].split())


def test_no_module_lies_outside_of_a_package() -> None:
    """A folder with modules and no __init__.py would be left out of the wheel."""
    folders = {path.parent for room in ("memdb", *ROOMS) for path in (ROOT / room).rglob("*.py")}

    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_linked(room: str) -> None:
    """The relative links let every tool see one package in the checkout."""
    link = ROOT / "memdb" / room

    assert link.resolve() == ROOT / room
    if link.is_symlink():
        assert link.readlink() == Path("..") / room


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_as_one_package(room: str) -> None:
    """Each room is imported under memdb and from nowhere else."""
    module = importlib.import_module(f"memdb.{room}")

    assert module.__name__ == f"memdb.{room}"
    assert room not in sys.modules


def test_version_module_imports_nothing() -> None:
    """The build reads the version without the dependencies."""
    source = (ROOT / "memdb" / "_version.py").read_text()

    assert "import" not in source.split('"""')[2]
    assert memdb.__version__ == _version.__version__


def test_changelog_has_the_version() -> None:
    """The changelog has Unreleased on top, or the version that is being released."""
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == "Unreleased" or headings[0] == memdb.__version__


def test_all_is_sorted_and_complete() -> None:
    """``__all__`` is what memdb exports, sorted."""
    exported = {
        name
        for name, value in vars(memdb).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    } - {"annotations"}

    assert list(memdb.__all__) == sorted(memdb.__all__)
    assert exported <= set(memdb.__all__)
    assert all(hasattr(memdb, name) for name in memdb.__all__)


def test_project_table_is_absent() -> None:
    """setup.cfg describes the package; a [project] table would clash with it."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert "project" not in content
    assert content["build-system"]["build-backend"] == "setuptools.build_meta"


def test_every_dependency_is_imported() -> None:
    """Nothing is installed that the package does not use."""
    lines = _setup_cfg()["options"]["install_requires"].split()
    names = {re.split(r"[<>=]", line)[0] for line in lines}
    source = "\n".join(
        path.read_text() for room in ("memdb", *ROOMS) for path in (ROOT / room).rglob("*.py")
    )

    assert all(re.search(rf"^\s*(import|from) {name}\b", source, re.MULTILINE) for name in names)


def test_rooms_import_one_way() -> None:
    """Storage, serializers and indexes know nothing of each other, nor of memdb but its errors."""
    wrong = []
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            found = re.findall(
                r"^\s*from (memdb[\w.]*) import|^\s*import (memdb[\w.]*)",
                path.read_text(),
                re.MULTILINE,
            )
            for name in ("".join(pair) for pair in found):
                if name != "memdb.errors" and not f"{name}.".startswith(f"memdb.{room}."):
                    wrong.append((path.relative_to(ROOT).as_posix(), name))

    assert wrong == []


def test_public_objects_have_docstrings() -> None:
    """Each exported class and function says what it is."""
    values = [getattr(memdb, name) for name in memdb.__all__]
    wanted = [each for each in values if isinstance(each, (type, types.FunctionType))]

    assert [each for each in wanted if not inspect.getdoc(each)] == []


@pytest.mark.slow
def test_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel holds every module and works without the checkout; the build leaves no trace."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, symlinks=True, ignore=ignored)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, source)
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".py")}
    expected = {
        f"{prefix}{path.relative_to(ROOT / folder).as_posix()}"
        for folder, prefix in [("memdb", "memdb/"), *((room, f"memdb/{room}/") for room in ROOMS)]
        for path in (ROOT / folder).rglob("*.py")
    }
    python = tmp_path / "empty" / "bin" / "python"
    _run(sys.executable, "-m", "venv", tmp_path / "empty")
    _run(python, "-m", "pip", "install", "--quiet", wheel)

    assert names == expected
    # Isolated: PYTHONPATH may name the checkout.
    shown = _run(python, "-I", "-c", _ROUND_TRIP, tmp_path / "people.memdb", cwd=tmp_path)
    assert shown.startswith("Eric ")
    assert "site-packages" in shown


def _run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
