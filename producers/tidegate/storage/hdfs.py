"""Read HDFS through hdfs-native, which needs no Java and no libhdfs.

A store has one cluster: nothing here lets the client choose one. The addresses of a name service
and the user come from Hadoop's own configuration: `HADOOP_CONF_DIR`, a Kerberos ticket,
`HADOOP_USER_NAME`. The client waits for a silent NameNode without end, so every call has a deadline
(`tidegate.storage.deadlines`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any, Final, TypeVar

from hdfs_native import Client, FileStatus

from tidegate.errors import FormatError, PermanentError
from tidegate.storage.deadlines import is_within, within
from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.locations import hadoop_settings
from tidegate.storage.parallel import ParallelMap, batches_of, slots_of
from tidegate.storage.store import Capabilities, Store
from tidegate.storage.store_errors import store_errors

_AUTHORITY: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?")
_PORT: Final = 8020
_PIECE: Final = 8 * 1024 * 1024
_TASK: Final = 20
"""Directories of one parent in a task of a parallel map."""
_AT_ONCE: Final = 4
_CALLS: Final = 10
"""Fewer calls are not worth another thread."""
_FEW_ATTEMPTS: Final = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "50",
    "dfs.client.failover.sleep.max.millis": "300",
}
"""So that a NameNode that refuses connections is an error within two seconds, not in minutes."""

T = TypeVar("T")
R = TypeVar("R")


class HdfsStore(Store):
    """Reads one cluster."""

    @property
    def can(self) -> Capabilities:
        """See `Store`."""
        return Capabilities(renames=True)

    def __init__(
        self, authority: str, *, timeout: float = 20.0, max_concurrency: int | None = None
    ) -> None:
        """Take the name of the cluster; nothing connects until the first call.

        Args:
            authority: The name.
            timeout: Seconds for a call of the NameNode, or for eight megabytes of a file.
            max_concurrency: The limit of calls that this process has under way; None: no limit.

        Raises:
            ValueError: it is not a host, with or without a port, nor a name service.
        """
        if not _AUTHORITY.fullmatch(authority):
            found = repr(authority) if authority else "none, and core-site.xml has no fs.defaultFS"
            raise ValueError(f"not the name of a cluster of HDFS: {found}")
        self.authority, self._timeout, self._most = authority, timeout, max_concurrency
        self._place = f"hdfs://{authority}"

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`."""
        path = self.path(location)
        found = self.call(location, lambda: list(self.client.list_status(path)))
        if len(found) == 1 and found[0].path == path:  # a file is listed as itself
            raise NotADirectoryError(location)
        return [_info(location, status) for status in found]

    def trees(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[ListedFile, ...] | None]:
        """See `Store`."""
        rows = partial(self.call_all, partial(self._rows, location))
        done = parallel_map.map(rows, batches_of(names, _TASK))
        return [files for batch in done for files in batch]

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
            [result] = self.call_all(lambda _: call(), (location,))
        return result

    def call_all(
        self, act: Callable[[T], R], items: Sequence[T], *, in_order: bool = True
    ) -> list[R]:
        """The results of `act`, for each item.

        Args:
            act: Makes calls of the client, or of this store.
            items: What it is called with.
            in_order: Whether to make one call after the other, instead of some at once.

        Raises:
            Exception: of the first item that failed; no other call is begun.
            TransientError: a call did not end before the deadline; no other is begun.
        """
        most = self._most
        wanted = 1 if in_order else max(1, min(most or _AT_ONCE, -(-len(items) // _CALLS)))
        with self._slots(most, wanted) if most else nullcontext(wanted) as count:
            parts = batches_of(items, max(1, -(-len(items) // count)))
            return within(self._timeout, [map(act, part) for part in parts])

    @contextmanager
    def _slots(self, most: int, wanted: int) -> Generator[int]:
        """Wait for a slot; how many there are, at most `wanted`.

        A thread of `within` has one, which is free again as soon as it is left.
        """
        if is_within():
            yield 1
            return
        slots, count = slots_of(self._place, most), 1
        slots.acquire()
        while count < wanted and slots.acquire(blocking=False):
            count += 1
        try:
            yield count
        finally:
            slots.release(count)

    def _listed(self, folders: Sequence[str]) -> Iterable[Sequence[FileInfo]]:
        return self.call_all(self.children, folders, in_order=False)

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
