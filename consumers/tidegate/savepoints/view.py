"""A savepoint plan's view of the table, stored in the header of the savepoint's own file.

The next savepoint is derived from it (`derivation.py`). Hudi ignores the header entry.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from tidegate.bounded_json import count_of, parse_json
from tidegate.errors import FormatError
from tidegate.hudi import (
    WRITES,
    Action,
    Instant,
    InstantState,
    SliceRules,
    TableProperties,
    Timeline,
    parse_data_file,
)
from tidegate.hudi.instant import Layout

KEY: Final = "tidegate.view"
_FORMAT: Final = 1
_LARGEST: Final = 16 * 1024 * 1024
"""In bytes; enough for a timeline of 300,000 instants."""
_RELEVANT: Final = WRITES | {Action.CLEAN, Action.ROLLBACK, Action.RESTORE}


@dataclass(frozen=True, slots=True)
class View:
    """The timeline that the plan saw, and the plan's counts."""

    table: tuple[int, str]
    """The table's version and type."""
    layout: Layout
    instants: frozenset[Instant]
    """Writes, cleans, rollbacks and restores; in layout 1 without their completion times."""
    files: int
    """Number of files that the savepoint keeps."""
    size: int
    """Total size of those files, in bytes."""
    has_strangers: bool
    """Whether there were data files of instants that are neither on the timeline nor before it."""
    derived: int = 0
    """Savepoints derived in a row, including this one, since all partitions were last listed."""

    @classmethod
    def of(
        cls,
        properties: TableProperties,
        rules: SliceRules,
        kept: tuple[int, int],
        names: Iterable[str],
    ) -> Self:
        """The view of a plan that listed everything.

        Args:
            properties: The table's properties.
            rules: With the table's timeline.
            kept: The number of files that the savepoint keeps, and their total bytes.
            names: The names of all data files.
        """
        return cls(
            (properties.version, properties.table_type),
            properties.layout,
            relevant_instants(rules.timeline, properties.layout),
            *kept,
            sees_strangers(rules, names),
        )

    def header(self) -> dict[str, str]:
        """The header entry of the savepoint's file."""
        record = {
            "format": _FORMAT,
            "table": self.table,
            "layout": self.layout,
            "instants": sorted(_name(instant) for instant in self.instants),
            "files": self.files,
            "bytes": self.size,
            "strangers": self.has_strangers,
            "derived": self.derived,
        }
        packed = zlib.compress(json.dumps(record, separators=(",", ":")).encode())
        return {KEY: b64encode(packed).decode()}

    @classmethod
    def parse(cls, header: Mapping[str, str]) -> Self:
        """Read the header entry.

        Raises:
            FormatError: the entry is missing, or is from another version of Tidegate.
        """
        try:
            inflate = zlib.decompressobj()
            record = parse_json(
                inflate.decompress(b64decode(header[KEY]), _LARGEST),
                "the savepoint's view",
                _LARGEST,
            )
            if record["format"] != _FORMAT or inflate.unconsumed_tail:
                raise FormatError("the savepoint's view is from another version, or too large")
            version, kind = record["table"]
            return cls(
                (count_of(version), str(kind)),
                Layout(record["layout"]),
                frozenset(map(_instant, record["instants"])),
                count_of(record["files"]),
                count_of(record["bytes"]),
                bool(record["strangers"]),
                count_of(record["derived"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
            raise FormatError(f"the savepoint has no readable view: {error!r}") from error


def relevant_instants(timeline: Timeline, layout: Layout) -> frozenset[Instant]:
    """The instants of a timeline that decide which files a savepoint keeps, as in a `View`."""
    return frozenset(
        Instant(i.timestamp, i.action, i.state, None if layout is Layout.ONE else i.completion)
        for i in timeline.instants
        if i.action in _RELEVANT
    )


def sees_strangers(rules: SliceRules, names: Iterable[str]) -> bool:
    """Whether a data file's instant is neither on the timeline nor before it.

    Such a file counts as uncommitted until the timeline begins after it.
    """
    timeline = rules.timeline
    known = {write.timestamp for write in timeline.writes}
    files = (parse_data_file(name) for name in names)
    unknown = {file.instant for file in files if file is not None} - known
    return any(not timeline.is_committed(instant) for instant in unknown)


def _name(instant: Instant) -> str:
    times = "_".join(filter(None, (instant.timestamp, instant.completion)))
    return f"{times} {instant.action} {instant.state.name}"


def _instant(name: str) -> Instant:
    times, action, state = name.split(" ")
    timestamp, _, completion = times.partition("_")
    return Instant(timestamp, Action(action), InstantState[state], completion or None)
