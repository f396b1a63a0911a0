"""What the figures were measured on and with; no names and no paths."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from importlib import metadata
from pathlib import Path

_LIBRARIES = ("numpy", "orjson", "msgspec", "xxhash", "lmdb")


def machine_facts() -> dict[str, object]:
    """Return the processor, memory, kernel, Python and library versions."""
    return {
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "filesystem": _filesystem(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_build": " ".join(platform.python_compiler().split()[:2]),
        "switch_interval_s": sys.getswitchinterval(),
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _filesystem() -> str:
    """Return the kind of file system that temporary files lie on."""
    where = Path(tempfile.gettempdir()).resolve()
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [mount for mount in mounts if where.is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2] if holding else "unknown"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
