"""The record of a quarantine: one small JSON file next to the directories. Pure.

    TABLE/.tidegate_quarantine/RUN/record.json
    TABLE/.tidegate_quarantine/RUN/delta_0000001_0000001_0000/...

Every run of the cleaner has an entry of its own, so names never collide, and concurrent cleaners
never write to the same entry. Hive, Spark and Trino ignore hidden names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.cleaning.plan import CleaningPlan
from tidegate.errors import FormatError
from tidegate.events import CleaningReleased

FOLDER: Final = ".tidegate_quarantine"
"""The hidden directory in the directory of a table or partition."""
RECORD: Final = "record.json"
UNDONE: Final = "undone.json"
"""Names the request that put everything back. The entry stays until the quarantine ends."""
LEAVING: Final = ".leaving-"
"""The prefix of directories that are being removed for good: they are never put back."""
MAX_RECORD_BYTES: Final = 16 * 2**20
"""A record lists up to 1,000 directories twice: by name, and with the partition."""
_VERSION: Final = 1
_NOT_OURS: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The errors that a stranger's JSON may raise, for example by deep nesting."""


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """The directories that one run of a cleaning moved, or was about to move, into quarantine."""

    cleaning: str
    """The id of the CleaningReleased."""
    vacuum: str
    table: str
    partition: str | None
    why: str
    at: str
    """The time of the run by the cleaner's clock; for people."""
    keep_ms: int
    directories: Mapping[str, tuple[int, int]]
    """By name, the number and the bytes of the files of a directory."""
    products: tuple[str, ...]
    """The vacuum's products, which replace these directories for readers."""
    version: int = _VERSION

    @classmethod
    def of(
        cls, command: CleaningReleased, plan: CleaningPlan, why: str, at: datetime, keep_ms: int
    ) -> QuarantineRecord:
        """The record of a run that is about to begin."""
        return cls(
            command.event_id,
            command.caused_by or "",
            command.table,
            command.partition,
            why,
            at.isoformat(),
            keep_ms,
            {planned.name: (len(planned.files), planned.size) for planned in plan.remove},
            tuple(product.name for product in plan.products),
        )

    @classmethod
    def parse(cls, content: bytes) -> QuarantineRecord:
        """Read a record.

        Raises:
            FormatError: it is not a record, or has a later version.
        """
        try:
            read: dict[str, Any] = parse_json(content, RECORD, MAX_RECORD_BYTES)
            if read["version"] != _VERSION:
                raise FormatError(f"a quarantine record of version {read['version']}")
            where: dict[str, Any] = read.pop("paths")
            del where
            sizes = {str(n): (int(f), int(b)) for n, (f, b) in read.pop("directories").items()}
            products = tuple(map(str, read.pop("products")))
            return cls(**read, directories=sizes, products=products)
        except _NOT_OURS as error:
            raise FormatError(f"not a quarantine record: {error!r}") from error

    def dump(self) -> bytes:
        """The file's content; `paths` has the original locations, relative to the table."""
        prefix = f"{self.partition}/" if self.partition else ""
        content = asdict(self) | {"paths": [prefix + name for name in self.directories]}
        return json.dumps(content, indent=1).encode("utf-8", "surrogatepass")


def dump_undone(request: str) -> bytes:
    """The content of the file with the request that put everything back."""
    return json.dumps({"request": request}).encode()


def parse_undone(content: bytes) -> str:
    """Read which request put everything back.

    Raises:
        FormatError: the content is not such a file's.
    """
    try:
        return str(parse_json(content, UNDONE, MAX_SMALL)["request"])
    except _NOT_OURS as error:
        raise FormatError(f"not the record of an undo: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Entry:
    """One run's entry in a quarantine, as it was found."""

    name: str
    path: str
    record: QuarantineRecord
    quarantined: Collection[str] = ()
    """The names of directories that can be put back."""
    leaving: Collection[str] = ()
    """The present names of directories that are being removed for good."""
    undone_by: str | None = None
    """The id of the request that put everything back."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By name, the number and the bytes of the present files, if they were counted."""
