"""Read what no other store here does, through fsspec. Nothing is changed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import fsspec

from tidegate.errors import FormatError
from tidegate.storage.file_info import FileInfo
from tidegate.storage.locations import join
from tidegate.storage.store import Store
from tidegate.storage.store_errors import store_errors

_MS: Final = 1000


class FsspecStore(Store):
    """Reads one place through fsspec's client of its protocol."""

    def __init__(self, protocol: str, options: Mapping[str, Any]) -> None:
        """Take fsspec's options for the protocol.

        Raises:
            ImportError, ValueError: its client is not installed, or it is unknown.
        """
        fsspec.get_filesystem_class(protocol)
        self._protocol, self._options = protocol, dict(options)

    def children(self, location: str) -> Sequence[FileInfo]:
        """See `Store`."""
        fs, path = self._open(location)
        with store_errors(location):
            return _listed(fs.ls(path, detail=True, refresh=True), path, location)

    def entry(self, location: str) -> FileInfo:
        """See `Store`."""
        fs, path = self._open(location)
        with store_errors(location):
            return _file_info(location.rpartition("/")[0], fs.info(path))

    def read(self, location: str, limit: int) -> bytes:
        """See `Store`."""
        fs, path = self._open(location)
        with store_errors(location):
            if int(fs.info(path).get("size") or 0) > limit:
                raise FormatError(f"{location} is larger than the limit of {limit} bytes")
            return bytes(fs.cat_file(path))

    def read_end(self, location: str, count: int) -> bytes:
        """See `Store`."""
        fs, path = self._open(location)
        with store_errors(location):
            return bytes(fs.cat_file(path, start=-count))

    def _open(self, location: str) -> tuple[Any, str]:
        """The file system of fsspec, and the path on it. Without a cache: other processes write."""
        fs = fsspec.filesystem(self._protocol, **{"use_listings_cache": False} | self._options)
        return fs, fs._strip_protocol(location)  # noqa: SLF001 - fsspec has no public equivalent


def _listed(found: Sequence[Mapping[str, Any]], path: str, location: str) -> list[FileInfo]:
    own = path.rstrip("/")
    inside: list[FileInfo] = []
    for info in found:
        # a store lists the path itself if it is a file, or has a marker (`d/`) of the directory
        name = str(info["name"])
        if name.rstrip("/") != own:
            inside.append(_file_info(location, info))
        elif info["type"] == "directory":  # the prefix of a key such as `a//b`
            raise FormatError(f"{location} has a key with an empty name, which no path can name")
        elif not name.endswith("/"):
            raise NotADirectoryError(location)
    return inside


def _file_info(parent: str, info: Mapping[str, Any]) -> FileInfo:
    name = str(info["name"]).rstrip("/").rsplit("/", 1)[-1]
    is_link = bool(info.get("islink", False))
    return FileInfo(
        name=name,
        path=join(parent, name),
        is_dir=info["type"] == "directory" and not is_link,
        size=int(info.get("size") or 0),
        modified_ms=_modified_ms(info),
        is_link=is_link,
    )


def _modified_ms(info: Mapping[str, Any]) -> int:
    """The modification time, whose name and unit depend on the file system's driver."""
    if "modificationTime" in info:  # WebHDFS, in milliseconds
        return int(info["modificationTime"])
    moment = info.get("mtime", info.get("LastModified", info.get("last_modified")))
    if isinstance(moment, datetime):
        return int(moment.timestamp() * _MS)
    return int(moment * _MS) if isinstance(moment, int | float) else 0
