"""Read HDFS through hdfs-native, which needs no Java and no libhdfs.

A store has one cluster: nothing here lets the client choose one. The addresses of a name service
and the user come from Hadoop's own configuration: `HADOOP_CONF_DIR`, a Kerberos ticket,
`HADOOP_USER_NAME`. The client waits for a silent NameNode without end, so every call is made by a
thread that is left alone after a deadline.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from hdfs_native import Client, FileStatus

from tidegate.errors import FormatError, PermanentError, TransientError
from tidegate.storage.file_info import FileInfo
from tidegate.storage.locations import hadoop_settings
from tidegate.storage.store import Capabilities, Store
from tidegate.storage.store_errors import store_errors

_AUTHORITY: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
_PORT: Final = 8020
_PIECE: Final = 8 * 1024 * 1024
_FEW_ATTEMPTS: Final = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "50",
    "dfs.client.failover.sleep.max.millis": "300",
}
"""So that a NameNode that refuses connections is an error within two seconds, not in minutes."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """How a cluster is reached."""

    timeout: float = 20.0
    """Seconds for a call of the NameNode, or for eight megabytes of a file."""


class HdfsStore(Store):
    """Reads one cluster."""

    can = Capabilities(renames=True)

    def __init__(self, authority: str, options: HdfsOptions) -> None:
        """Take the name of the cluster; nothing connects until the first call.

        Raises:
            ValueError: it is not a host, with or without a port, nor a name service.
        """
        if not _AUTHORITY.fullmatch(authority):
            found = repr(authority) if authority else "none, and core-site.xml has no fs.defaultFS"
            raise ValueError(f"not the name of a cluster of HDFS: {found}")
        self.authority, self.options = authority, options
        self._place = f"hdfs://{authority}"

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`."""
        path = self.path(location)
        found = self.call(location, lambda: list(self.client.list_status(path)))
        if len(found) == 1 and found[0].path == path:  # a file is listed as itself
            raise NotADirectoryError(location)
        return [_info(location, status) for status in found]

    def entry(self, location: str) -> FileInfo:
        """See `Store`."""
        path = self.path(location)
        status = self.call(location, lambda: self.client.get_file_info(path))
        return _info(location.rpartition("/")[0], status)

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`."""
        file = self._opened(location)
        if file.size > limit:
            raise FormatError(f"{location} is larger than the limit of {limit} bytes")
        return self._read(location, file, 0)

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        file = self._opened(location)
        return self._read(location, file, max(0, file.size - count))

    @property
    def client(self) -> Client:
        """The client, shared by all stores of a process: it keeps connections."""
        return client_of(self.authority)

    def path(self, location: str) -> str:
        """The path of a location. The client takes every character as it is."""
        return location[len(self._place) :] or "/"

    def call(self, location: str, call: Callable[[], R]) -> R:
        """The result of a call of the client.

        Raises:
            Exception: as in `store_errors`; TransientError also after the deadline.
        """
        with store_errors(location):
            return _within(self.options.timeout, call)

    def _opened(self, location: str) -> Any:  # noqa: ANN401 - of the client
        path = self.path(location)
        return self.call(location, lambda: self.client.read(path))

    def _read(self, location: str, file: Any, start: int) -> bytes:  # noqa: ANN401
        def piece(start: int) -> bytes:
            return self.call(
                location, lambda: bytes(file.read_range(start, min(_PIECE, file.size - start)))
            )

        return b"".join(map(piece, range(start, file.size, _PIECE)))


def _info(parent: str, status: FileStatus) -> FileInfo:
    # the client does not show the id of a file: two files of one name, size and time are one
    name, time = status.path.rpartition("/")[2], status.modification_time
    version = None if status.isdir else f"{time}-{status.length}"
    return FileInfo(name, f"{parent}/{name}", status.isdir, status.length, time, version=version)


@cache
def client_of(authority: str) -> Client:
    """The client of a cluster.

    Raises:
        PermanentError: the cluster is neither a name service nor an address.
    """
    is_service = f"dfs.ha.namenodes.{authority}" in hadoop_settings()
    port = "" if is_service or ":" in authority else f":{_PORT}"
    try:
        return Client(f"hdfs://{authority}{port}", dict(_FEW_ATTEMPTS))
    except RuntimeError as error:
        raise PermanentError(f"hdfs://{authority}: {error}") from error


_Call = tuple[Callable[[], Any], "Future[Any]"]
_idle: Final[list[SimpleQueue[_Call | None]]] = []
"""The inboxes of threads without a call."""


def _within(seconds: float, call: Callable[[], R]) -> R:
    """Let a thread make a call. One that does not answer in time is left, and ends with its call.

    Raises:
        TransientError: it did not answer in time; the call may still be carried out.
    """
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_make_calls, args=(inbox,), name="hdfs", daemon=True).start()
    answer = Future[R]()
    inbox.put((call, answer))
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        if answer.done():
            raise
        raise TransientError(f"the NameNode did not answer within {seconds:g} s") from error
    finally:
        if answer.done():
            _idle.append(inbox)
        else:
            inbox.put(None)


def _make_calls(inbox: SimpleQueue[_Call | None]) -> None:
    while (found := inbox.get()) is not None:
        call, answer = found
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)
