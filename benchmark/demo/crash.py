"""The writer that is killed, and the reader that starts cold: both run as child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from time import perf_counter

import memdb
from benchmark.demo.data import Flight, read_flights

# Identities of the flights that the killed writer adds begin here.
FIRST = 1_000_001


def write_until_killed(path: Path, limit: int) -> None:
    """Insert flights one by one; print each identity once its insert has returned."""
    db = memdb.open(path)
    flights = db.collection(Flight)
    for number, flight in enumerate(islice(read_flights(), limit)):
        flight.id = FIRST + number
        os.write(1, b"%d\n" % flights.insert(flight))
    os.write(1, b"end\n")
    signal.pause()


def kill_a_writer(path: Path, after: int, limit: int) -> list[int]:
    """Start a writer, kill it after ``after`` acknowledged inserts; return all acknowledged."""
    acknowledged: list[int] = []
    with _start("write", str(path), str(limit)) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if line.strip() == b"end":
                break
            acknowledged.append(int(line))
            if len(acknowledged) == after:
                writer.send_signal(signal.SIGKILL)
        writer.send_signal(signal.SIGKILL)
    if writer.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the writer ended by itself with {writer.returncode}")
    return acknowledged


def cold_start_seconds(path: Path) -> float:
    """Return the seconds from open to the first record in hand, in a fresh process."""
    with _start("read", str(path)) as reader:
        assert reader.stdout is not None
        return float(reader.stdout.read())


def read_one(path: Path) -> None:
    """Open, get one record, print the seconds that it took."""
    begin = perf_counter()
    with memdb.open(path, mode="r") as db:
        assert db.collection(Flight).get(1) is not None
        print(perf_counter() - begin)


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmark.demo.crash", *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_until_killed(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        read_one(Path(sys.argv[2]))
