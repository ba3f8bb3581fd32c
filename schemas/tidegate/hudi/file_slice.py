"""Data file names, and the file slices of a table at an instant.

A slice of a file group is a base file and the log files that changed it since. A copy-on-write
table has only base files and the change data (`.cdc`) of its writes, which are log files by name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hudi.instant import Layout
from tidegate.hudi.timeline import Timeline

_BASE: Final = re.compile(
    r"(?P<id>[^_.][^_]*)_(?P<token>[^_]+)_(?P<instant>\d{14,24})\.(?P<ext>\w+)"
)
_LOG: Final = re.compile(
    r"\.(?P<id>[^_]+)_(?P<instant>\d{14,24})\.log\.(?P<version>\d+)(?:_(?P<token>[^_.]+(?:\.cdc)?))?"
)
_CHANGE_DATA: Final = ".cdc"
_LOG_INFIX: Final = ".log."


@dataclass(frozen=True, slots=True)
class BaseFile:
    """`<file id>_<write token>_<instant>.<extension>`."""

    file_id: str
    token: str
    instant: str
    extension: str

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse a file name; None if it is not the name of a base file."""
        match = _BASE.fullmatch(name)
        return cls(*match.groups()) if match else None

    @property
    def file_name(self) -> str:
        """The file's name; the inverse of `parse`."""
        return f"{self.file_id}_{self.token}_{self.instant}.{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFile:
    """`.<file id>_<instant>.log.<version>_<write token>`.

    Up to table version 6, the instant is that of the slice's base file. From version 8 on, it is
    that of the delta commit that wrote the log file. The change data of a copy-on-write table are
    named like log files of the commit that wrote them, with a token that ends in `.cdc`.
    """

    file_id: str
    instant: str
    version: int
    token: str | None

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse a file name; None if it is not the name of a log file."""
        match = _LOG.fullmatch(name)
        if match is None:
            return None
        return cls(match["id"], match["instant"], int(match["version"]), match["token"])

    @property
    def file_name(self) -> str:
        """The file's name; the inverse of `parse`."""
        token = "" if self.token is None else f"_{self.token}"
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}"

    @property
    def is_change_data(self) -> bool:
        """Whether it contains a commit's change data: rows before and after, not table content."""
        return self.token is not None and self.token.endswith(_CHANGE_DATA)

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: the order in which readers read the log files of a slice (version 6)."""
        return self.version, self.token or ""


def parse_data_file(name: str) -> BaseFile | LogFile | None:
    """Parse the name of a base or log file; None if it is neither.

    Raises:
        FormatError: it is a log file's name of an unknown form, so its slice is unknown.
    """
    if not name.startswith("."):
        return BaseFile.parse(name)
    file = LogFile.parse(name) if _LOG_INFIX in name else None  # most are checksums of base files
    if file is None and _LOG_INFIX in name and not name.endswith(".crc"):
        raise FormatError(f"{name[:200]} is not named like a log file of a known table version")
    return file


def instant_of_data_file(name: str) -> str | None:
    """The instant in the name of a base or log file; None if it is neither.

    Raises:
        FormatError: as `parse_data_file`.
    """
    if not name.startswith("."):  # fast path: most files are base files
        match = _BASE.fullmatch(name)
        return match["instant"] if match else None
    file = parse_data_file(name)
    return None if file is None else file.instant


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file with its log files, or log files without a base file.

    Its instant is that of the base file. Without a base file, it is the instant of the pending
    compaction that will write one, or of the first delta commit.
    """

    file_id: str
    instant: str
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of its files, sorted."""
        base = () if self.base is None else (self.base.file_name,)
        return tuple(sorted((*base, *(log.file_name for log in self.logs))))


@dataclass(frozen=True, slots=True)
class SliceRules:
    """The rules that assign files to slices.

    `compactions` maps the file groups (partition, file id) of pending compactions to the
    compaction's instant: later writes to a group belong to a new slice of that instant.
    `merged` has the files (partition, name) that every compaction of `compactions_to_read` merges,
    by instant. `unknown` has the instants of `compactions_to_read` that may be compactions, but
    have no plan. `named` has the base files (partition, name) that a commit names, where another
    one has the same file id and instant: a task that was repeated may leave a file behind.
    """

    timeline: Timeline
    layout: Layout
    compactions: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    merged: Mapping[str, AbstractSet[tuple[str, str]]] = field(
        default_factory=dict[str, AbstractSet[tuple[str, str]]]
    )
    unknown: AbstractSet[str] = frozenset()
    named: AbstractSet[tuple[str, str]] = frozenset()


def replaced_groups(
    replacements: Mapping[str, Mapping[str, Iterable[str]]], until: str
) -> frozenset[tuple[str, str]]:
    """The file groups (partition, file id) that replacecommits at or before `until` replaced.

    Args:
        replacements: The replaced file ids by partition, by timestamp of completed replacecommits.
        until: Later replacecommits do not count.
    """
    return frozenset(
        (partition, file_id)
        for timestamp, partitions in replacements.items()
        if timestamp <= until
        for partition, file_ids in partitions.items()
        for file_id in file_ids
    )


def compactions_to_read(
    partition: str, names: Collection[str], rules: SliceRules
) -> frozenset[str]:
    """The compactions whose plans assign the log files of archived delta commits to slices.

    From version 8 on, the slice of a log file depends on the completion time of its delta commit.
    The timeline has no completion time of an archived delta commit. But if a compaction of the
    previous slice did not merge a log file, its delta commit completed after the compaction's
    request.

    Raises:
        FormatError: a log file's name has an unknown form.
    """
    if rules.layout is Layout.ONE:
        return frozenset()
    oldest = dict[str, str]()
    for name in filter(_may_be_log, names):  # most tables have no such file
        log = parse_data_file(name)
        if isinstance(log, LogFile) and _is_of_archived(log, rules.timeline):
            oldest[log.file_id] = min(log.instant, oldest.get(log.file_id, log.instant))
    if not oldest:
        return frozenset()
    bases = filter(None, map(BaseFile.parse, names))
    begun = [(base.file_id, base.instant) for base in bases if base.file_id in oldest]
    begun += [(file_id, rules.compactions.get((partition, file_id), "")) for file_id in oldest]
    return frozenset(instant for file_id, instant in begun if instant > oldest[file_id])


def repeated_writes(names: Iterable[str]) -> frozenset[str]:
    """The instants that wrote several base files of one file group of a partition."""
    seen, repeated = set[tuple[str, str]](), set[str]()
    for name in names:
        if not _may_be_log(name):  # most tables have no such file: names are compared, not parsed
            file_id, _, rest = name.partition("_")
            key = file_id, rest.rpartition("_")[2]
            if key in seen and (base := BaseFile.parse(name)) is not None:
                repeated.add(base.instant)
            seen.add(key)
    return frozenset(repeated)


def _may_be_log(name: str) -> bool:
    return name.startswith(".")


def _is_of_archived(log: LogFile, timeline: Timeline) -> bool:
    return not log.is_change_data and timeline.is_forgotten(log.instant)


def latest_slices(
    partition: str,
    names: Iterable[str],
    rules: SliceRules,
    until: str,
    replaced: AbstractSet[tuple[str, str]],
) -> tuple[FileSlice, ...]:
    """The newest slice of every current file group, begun at or before `until`.

    As in Hudi's file system view for a savepoint, files of incomplete writes and file groups that
    were replaced by then are omitted, but later log files of the slice are included.

    A slice that a pending compaction began has no files until the next write to the group. Hudi's
    savepoint then has no file of that group. Here it has the files of the previous slice: as long
    as the compaction is pending, they are the group's only files.

    Raises:
        FormatError: a log file's name has an unknown form.
    """
    bases, logs = defaultdict[str, list[BaseFile]](list), defaultdict[str, list[LogFile]](list)
    for name in names:
        file = parse_data_file(name)
        if isinstance(file, BaseFile):
            bases[file.file_id].append(file)
        elif file is not None:
            logs[file.file_id].append(file)
    found = list[FileSlice]()
    for file_id in sorted({*bases, *logs}):
        if (partition, file_id) not in replaced:
            group = _Group(partition, file_id, rules)
            found += group.latest(bases[file_id], logs[file_id], until)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Group:
    partition: str
    file_id: str
    rules: SliceRules

    def latest(
        self, bases: Iterable[BaseFile], logs: Iterable[LogFile], until: str
    ) -> list[FileSlice]:
        """The newest slice with files; an empty list if there is none."""
        slices = self._slices(bases, logs)
        begun = [key for key, (base, own) in slices.items() if key <= until and (base or own)]
        return [self._slice(key, *slices[key]) for key in sorted(begun)[-1:]]

    def _slice(self, instant: str, base: BaseFile | None, logs: list[LogFile]) -> FileSlice:
        return FileSlice(self.file_id, instant, base, tuple(logs))

    def _slices(
        self, bases: Iterable[BaseFile], logs: Iterable[LogFile]
    ) -> dict[str, tuple[BaseFile | None, list[LogFile]]]:
        timeline, named = self.rules.timeline, self.rules.named
        slices: dict[str, tuple[BaseFile | None, list[LogFile]]] = {}
        for base in sorted(
            bases, key=lambda b: (b.instant, (self.partition, b.file_name) in named, b.token)
        ):
            if timeline.is_committed(base.instant):
                slices[base.instant] = (base, [])
        pending = self.rules.compactions.get((self.partition, self.file_id))
        if pending is not None:
            slices.setdefault(pending, (None, []))
        for log in sorted(logs, key=lambda log: (log.instant, log.order)):
            if not timeline.is_committed(log.instant) and log.instant != pending:
                continue
            for key in self._keys_of(log, slices):
                if log.is_change_data and slices.get(key, (None,))[0] is None:
                    continue  # without its base file, the write is gone
                slices.setdefault(key, (None, []))[1].append(log)
        return slices

    def _keys_of(self, log: LogFile, slices: Iterable[str]) -> tuple[str, ...]:
        """The slice of a log file; several if it is ambiguous."""
        timeline = self.rules.timeline
        if self.rules.layout is Layout.ONE:
            return (log.instant,)
        # the newest slice that began before the delta commit completed
        completed = timeline.completion_of(log.instant)
        key = max((key for key in slices if key <= completed), default=None)
        if _is_of_archived(log, timeline):
            return self._keys_of_archived(log, key, sorted(k for k in slices if k > log.instant))
        return (key or log.instant,)

    def _keys_of_archived(self, log: LogFile, key: str | None, later: list[str]) -> tuple[str, ...]:
        """The possible slices of a log file, as explained in `compactions_to_read`.

        A log file that a plan merges belongs to the previous slice; one that it does not merge
        belongs to another. Without a plan (the compaction is archived, or an archiver has already
        removed the plan), that is unknown.

        Args:
            log: The log file.
            key: The newest slice that began before the delta commit's request, if there is one.
            later: The slices that began after it, in order.
        """
        found = list[str | None]()
        for before, begun in zip([key, *later], [*later, None], strict=True):
            merged = None if begun is None else self.rules.merged.get(begun)
            if merged is None:
                found.append(before)
                if begun is not None and not self._may_be_compaction(begun):
                    break
            elif (self.partition, log.file_name) in merged:
                return (before or log.instant,)
        # without a known previous slice, it is of a slice without a base file, or of a rolled-back
        # write; Hudi reads the latter as part of the newest slice
        unknown = (log.instant, *later[-1:]) if None in found else ()
        return (*filter(None, found), *unknown)

    def _may_be_compaction(self, instant: str) -> bool:
        return self.rules.timeline.is_forgotten(instant) or instant in self.rules.unknown
