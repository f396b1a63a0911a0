"""Child processes for the crash tests: started fast, killed for real."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from tests.support.markdown import ROOT

# A server that has imported everything once and forks: a child costs milliseconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["memdb", "tests.crash.children"])
TIMEOUT_S = 60
# A shell that runs the tests in the background lets them ignore Ctrl-C, which children inherit.
_TAKE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


class Child:
    """A child process that runs ``target(connection, *arguments)``; killed on exit if need be."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(target, theirs, arguments))
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.is_alive():
            self.kill()
        self._process.join(TIMEOUT_S)
        self.connection.close()
        self._process.close()

    def receive(self) -> Any:
        """Return the next message; EOFError when the child is gone."""
        if not self.connection.poll(TIMEOUT_S):
            raise TimeoutError(f"child {self.pid} says nothing")
        return self.connection.recv()

    def messages(self) -> Iterator[Any]:
        """Iterate over the messages until the child is gone."""
        while True:
            try:
                yield self.receive()
            except (EOFError, ConnectionResetError):
                return

    def send(self, message: Any) -> None:
        """Send a message to the child."""
        self.connection.send(message)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.join(TIMEOUT_S)

    def wait(self) -> int:
        """Wait for the end of the child; return its exit code, negative for a signal."""
        self._process.join(TIMEOUT_S)
        code = self._process.exitcode
        assert code is not None, f"child {self.pid} does not end"
        return code


def _run(target: Callable[..., None], connection: Connection, arguments: tuple[Any, ...]) -> None:
    target(connection, *arguments)


def in_fork(function: Callable[[], Any]) -> Any:
    """Fork, run ``function`` in the child, return its result or raise its exception here.

    Raises:
        TimeoutError: The child hangs; it was killed.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside threads: the very thing that is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:  # pragma: no cover - the child is not measured
        try:
            signal.alarm(20)
            os.close(reading)
            try:
                answer = True, function()
            except BaseException as error:
                answer = False, error
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise TimeoutError(f"the forked child was ended by signal {os.WTERMSIG(status)}")
    is_result, value = pickle.loads(data)
    if is_result:
        return value
    raise value


def start_script(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start Python source in a fresh interpreter, which ends as programs do (atexit and all)."""
    return subprocess.Popen(
        [sys.executable, "-c", _TAKE_CTRL_C + code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(
    code: str, *arguments: object, timeout: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run Python source in a fresh interpreter; return what it printed and its exit code."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
