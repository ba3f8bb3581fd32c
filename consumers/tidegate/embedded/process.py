"""JVM servers as child processes that do not outlive their parent; their common base class."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from tidegate.errors import ConfigError, TidegateError

HOST: Final = "127.0.0.1"
LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c)%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
"""log4j2's configuration: everything to standard output, which goes into the log file."""
_ATTEMPTS: Final = 3
_PORT_TAKEN: Final = "Address already in use"
_CHECK_SECONDS: Final = 0.02
_WATCH_SECONDS: Final = 0.5

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
_reserved: Final[list[socket.socket]] = []


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


def java_command(  # noqa: PLR0913 - each is one part of the command line
    java: Path,
    jars: Sequence[Path],
    main: str,
    arguments: Sequence[str],
    *,
    heap_mb: int,
    options: Sequence[str] = (),
) -> list[str]:
    """The command line that starts a main class, quickly and with a small heap."""
    class_path = os.pathsep.join(map(str, jars))
    small = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{heap_mb}m")
    return [str(java), *small, *options, "-cp", class_path, main, *arguments]


def free_ports() -> tuple[int, int]:
    """Find two unused ports for servers of this process.

    On Linux they stay reserved until it ends: a bound socket that does not listen keeps the kernel
    from giving the port to a process that asks for any port. A server that binds it by its number
    gets it (with SO_REUSEADDR, as servers do). Elsewhere another process may take it before.
    """
    found = []
    for _ in range(2):
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((HOST, 0))
        found.append(reserved)
    one, other = (int(reserved.getsockname()[1]) for reserved in found)
    if sys.platform == "linux":
        _reserved.extend(found)
    else:
        for reserved in found:
            reserved.close()
    return one, other


def is_open(host: str, port: int) -> bool:
    """Whether a server accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


class EmbeddedServer(ABC):
    """A server in a directory of its own. Use it as a context manager, or call `start`, `stop`.

    It can be stopped or killed, and started again. Its data stay in the directory. Its ports are
    chosen at the first start and kept. If this process dies in any way, the server is killed
    (Linux).
    """

    def __init__(self, name: str, folder: Path, startup_seconds: float) -> None:
        """Take its name, its directory, and how long to wait until it answers."""
        self.folder = folder
        self.log = folder / f"{name.lower()}.log"
        self._name, self._startup_seconds = name, startup_seconds
        self._child: Child | None = None
        self._ports: tuple[int, int] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, None while it is not running."""
        return self._child.pid if self._child is not None else None

    @property
    def ports(self) -> tuple[int, int]:
        """Its two ports; the same after a restart.

        Raises:
            ConfigError: it was never started.
        """
        if self._ports is None:
            raise ConfigError(f"the embedded {self._name} has no address before its first start")
        return self._ports

    @abstractmethod
    def _launch(self, ports: tuple[int, int]) -> Child:
        """Start its process."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves clients."""

    def start(self) -> Self:
        """Start it and return when it answers. Started twice is started once.

        Raises:
            ConfigError: no Java 17; or it did not come up, with the end of its log.
            TransientError: its jars could not be fetched.
        """
        if self._child is not None and self._child.exit_code is None:
            return self
        is_fixed = self._ports is not None
        for _ in range(_ATTEMPTS):
            self._ports = self._ports or free_ports()
            child = self._child = self._launch(self._ports)
            if (reason := self._why_not_up(child)) is None:
                return self
            tail = child.tail()
            self.kill()
            if is_fixed or _PORT_TAKEN not in tail:
                raise ConfigError(
                    f"the embedded {self._name} {reason}; the end of {self.log}:\n{tail}"
                )
            self._ports = None
        raise ConfigError(f"the embedded {self._name} found no free port {_ATTEMPTS} times")

    def _why_not_up(self, child: Child) -> str | None:
        """Wait until it answers; None then, else what is wrong."""
        deadline = time.monotonic() + self._startup_seconds
        while time.monotonic() < deadline:
            if child.exit_code is not None:
                return f"ended at once (exit code {child.exit_code})"
            if self._answers():
                return None
            time.sleep(_CHECK_SECONDS)
        return f"did not answer within {self._startup_seconds:g} s"

    def wait(self, stop: threading.Event) -> None:
        """Return when `stop` is set.

        Raises:
            TidegateError: the server ended before, with the end of its log.
        """
        child = self._child
        while not stop.wait(_WATCH_SECONDS):
            if child is None or child.exit_code is not None:
                tail = "" if child is None else child.tail()
                raise TidegateError(
                    f"the embedded {self._name} has ended; the end of {self.log}:\n{tail}"
                )

    def stop(self, seconds: float = 30) -> None:
        """Ask it to stop (SIGTERM), kill it if it has not after `seconds`. Idempotent."""
        if self._child is not None and self._child.end(signal.SIGTERM, seconds):
            self._child = None
        self.kill()

    def kill(self) -> None:
        """Kill it as a crash would (SIGKILL)."""
        if self._child is not None:
            self._child.end(signal.SIGKILL, self._startup_seconds)
            self._child = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()
