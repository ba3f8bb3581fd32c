"""List and read, over fsspec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import fsspec

from tidegate.errors import TidegateError
from tidegate.storage.locations import join, normalise

_MS: Final = 1000


class NotFound(TidegateError):  # noqa: N818 - an expected answer, not a fault
    """Nothing is at this location. The catcher treats it as absent."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory: its name, its normalised path, its size in bytes.

    `modified_ms` is the modification time in milliseconds since the epoch, 0 where the store has
    none (directories of object stores).
    """

    name: str
    path: str
    is_dir: bool
    size: int
    modified_ms: int
    is_link: bool = False


class Storage:
    """A reader of one or many file systems. Options are fsspec's own, by protocol."""

    def __init__(self, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Take fsspec's options, a mapping a protocol: `{"s3": {"endpoint_url": ...}}`."""
        self.options = {key: dict(value) for key, value in (options or {}).items()}

    def list(self, location: str) -> list[Entry]:
        """List the direct children, sorted by name.

        Raises:
            NotFound: there is no such directory.
        """
        fs, path = self._open(location)
        try:
            found = fs.ls(path, detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(location) from error
        # a store names the place itself where it is a file, or has a marker of the directory
        inside = [info for info in found if str(info["name"]).rstrip("/") != path.rstrip("/")]
        if any(info["type"] != "directory" for info in found if info not in inside):
            raise NotFound(location)
        return sorted((_entry(normalise(location), e) for e in inside), key=lambda e: e.name)

    def walk(self, location: str) -> Iterator[Entry]:
        """Yield every file below a location; directories that are links are not entered."""
        for entry in self.list(location):
            if entry.is_dir and not entry.is_link:
                yield from self.walk(entry.path)
            else:
                yield entry

    def read(self, location: str) -> bytes:
        """Read a whole file.

        Raises:
            NotFound: there is no such file.
        """
        fs, path = self._open(location)
        try:
            return bytes(fs.cat_file(path))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise NotFound(location) from error

    def exists(self, location: str) -> bool:
        """Whether anything is at this location."""
        fs, path = self._open(location)
        fs.invalidate_cache()
        return bool(fs.lexists(path))

    def _open(self, location: str) -> tuple[Any, str]:
        where = normalise(location)
        protocol = where.split("://", 1)[0] if "://" in where else "file"
        fs = fsspec.filesystem(protocol, **self.options.get(protocol, {}))
        return fs, fs._strip_protocol(where)  # noqa: SLF001 - fsspec's own way to say it


def _entry(parent: str, info: Mapping[str, Any]) -> Entry:
    name = str(info["name"]).rstrip("/").rsplit("/", 1)[-1]
    return Entry(
        name=name,
        path=join(parent, name),
        is_dir=info["type"] == "directory",
        size=int(info.get("size") or 0),
        modified_ms=_milliseconds(info.get("mtime", info.get("LastModified"))),
        is_link=bool(info.get("islink", False)),
    )


def _milliseconds(moment: object) -> int:
    if isinstance(moment, datetime):
        return int(moment.timestamp() * _MS)
    return int(moment * _MS) if isinstance(moment, int | float) else 0
