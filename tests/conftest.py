"""The database that tests use, and how hypothesis runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import memdb

# Plain runs are the same each time; HYPOTHESIS_PROFILE=fuzz searches anew, prints a blob that
# brings a failure back, and runs longer.
settings.register_profile("default", derandomize=True, deadline=None)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(params=["memory", "file", "encrypted"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[memdb.Database]:
    """An open database, in memory, in a file, and in an encrypted one.

    Whatever a test did to it, it must be whole.
    """
    path = None if request.param == "memory" else tmp_path / "test.memdb"
    database = memdb.open(path, key=bytes(32) if request.param == "encrypted" else None)
    yield database
    if not database.is_closed:
        try:
            assert [] == database.check()
        finally:
            database.close()
