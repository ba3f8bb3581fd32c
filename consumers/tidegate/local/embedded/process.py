"""A JVM as a child process that does not outlive its parent, and what the servers share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidegate.errors import TidegateError

# Linux only, elsewhere it does nothing. It runs as a program of its own instead of between fork
# and exec: Python code there can deadlock in a process that has threads.
_DIE_WITH_PARENT: Final = """
import os, sys
os.umask(0o077)  # logs and data may hold what only this user may read
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
_TAIL_LINES: Final = 15


class Child:
    """A running program; every method may be called after its exit, too.

    The kernel ties a parent-death signal to the thread that forked, not to its process: so a
    thread of its own starts the program and waits for it to end.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start it in its own session, out of reach of Ctrl-C, with its output appended to `log`.

        Raises:
            OSError: it could not be started.
        """
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._started = threading.Event()
        threading.Thread(
            target=self._keep, args=(command,), name=f"parent of {log.stem}", daemon=True
        ).start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code after its exit; negative for the signal that ended it."""
        return self._popen.poll()

    def end(self, how: signal.Signals, seconds: float) -> bool:
        """Send a signal and wait for the exit. False: it is still running after that time."""
        self._popen.send_signal(how)
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def tail(self) -> str:
        """The last lines of its log, for an error that quotes them."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_TAIL_LINES:])

    @property
    def _popen(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise TidegateError("the program was never started")
        return self._process

    def _keep(self, command: Sequence[str]) -> None:
        try:
            self._process = _start(command, self.log)
        except OSError as error:
            self._failure = error
            return
        finally:
            self._started.set()
        self._process.wait()


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    wrapper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab") as output:
        return subprocess.Popen(
            [*wrapper, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class EmbeddedServer(ABC):
    """A server in a directory of its own. Use it as a context manager, or call `start`, `stop`."""

    def __init__(self, startup_seconds: float) -> None:
        """Take how long to wait until it answers."""
        self._startup_seconds = startup_seconds
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, None while it is not running."""
        return self._child.pid if self._child is not None else None

    @abstractmethod
    def start(self) -> Self:
        """Start it and return when it answers. Started twice is started once."""

    def stop(self, seconds: float = 30) -> None:
        """Ask it to stop (SIGTERM), kill it if it has not after `seconds`. Idempotent."""
        if self._child is None:
            return
        if not self._child.end(signal.SIGTERM, seconds):
            self._child.end(signal.SIGKILL, seconds)
        self._ended()

    def kill(self) -> None:
        """Kill it as a crash would (SIGKILL)."""
        if self._child is not None:
            self._child.end(signal.SIGKILL, self._startup_seconds)
            self._ended()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def _ended(self) -> None:
        """Forget the process, which has ended."""
        self._child = None
