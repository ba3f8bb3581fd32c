"""Data file names, and which files a table consisted of at an instant (copy-on-write)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Self

from tidegate.hudi.timeline import Timeline

_BASE: Final = re.compile(
    r"(?P<id>[^_.][^_]*)_(?P<token>[^_]+)_(?P<instant>\d{14,24})\.(?P<ext>\w+)"
)
_LOG: Final = re.compile(
    r"\.(?P<id>[^_]+)_(?P<instant>\d{14,24})\.log\.(?P<version>\d+)(?:_(?P<token>[^_.]+))?"
)


@dataclass(frozen=True, slots=True)
class BaseFile:
    """`<file id>_<write token>_<instant>.<extension>`."""

    file_id: str
    token: str
    instant: str
    extension: str

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read a file name; None if it is not the name of a base file."""
        match = _BASE.fullmatch(name)
        return cls(*match.groups()) if match else None

    @property
    def file_name(self) -> str:
        """The name; `parse` reads it back."""
        return f"{self.file_id}_{self.token}_{self.instant}.{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFile:
    """`.<file id>_<instant>.log.<version>_<write token>`.

    The instant is that of the slice's base file up to table version 6, from version 8 on that of
    the delta commit which wrote the log file.
    """

    file_id: str
    instant: str
    version: int
    token: str | None

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Read a file name; None if it is not the name of a log file."""
        match = _LOG.fullmatch(name)
        if match is None:
            return None
        return cls(match["id"], match["instant"], int(match["version"]), match["token"])

    @property
    def file_name(self) -> str:
        """The name; `parse` reads it back."""
        token = "" if self.token is None else f"_{self.token}"
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}"


def replaced_groups(
    replacements: Mapping[str, Mapping[str, Iterable[str]]], until: str
) -> frozenset[tuple[str, str]]:
    """The file groups (partition, file id) that replacecommits at or before `until` replaced.

    Args:
        replacements: For each completed replacecommit's timestamp: partition to replaced file ids.
        until: Later replacecommits do not count.
    """
    return frozenset(
        (partition, file_id)
        for timestamp, partitions in replacements.items()
        if timestamp <= until
        for partition, file_ids in partitions.items()
        for file_id in file_ids
    )


def latest_base_files(
    partition: str,
    names: Iterable[str],
    timeline: Timeline,
    until: str,
    replaced: AbstractSet[tuple[str, str]],
) -> tuple[BaseFile, ...]:
    """The newest committed base file at or before `until` of each file group still in use.

    Files of writes that have not completed, and file groups replaced by then, are left out, as in
    Hudi's file system view for a savepoint.
    """
    newest: dict[str, BaseFile] = {}
    for base in filter(None, map(BaseFile.parse, names)):
        if base.instant > until or not timeline.is_committed(base.instant):
            continue
        if (partition, base.file_id) in replaced:
            continue
        known = newest.get(base.file_id)
        if known is None or (base.instant, base.token) > (known.instant, known.token):
            newest[base.file_id] = base
    return tuple(sorted(newest.values(), key=lambda base: base.file_name))
