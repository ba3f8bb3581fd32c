"""The fields of the cleaner's outcomes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate.events import Command
from tidegate.events.cleanings import split_by_names


def event_fields(command: Command, at: datetime) -> dict[str, Any]:
    """The fields of every outcome of the cleaner."""
    partition: str | None = getattr(command, "partition", None)
    return {"occurred_at": at, "source": "cleaner", "partition": partition}


def parts(sizes: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """The fields about directories, split into parts if the names are too many for one message.

    Args:
        sizes: By name, the number and the bytes of the files.
    """
    groups = split_by_names((name, name) for name in sorted(sizes))
    for number, group in enumerate(groups, 1):
        place = {"part": number, "parts": len(groups)} if len(groups) > 1 else {}
        files, size = (sum(sizes[name][n] for name in group) for n in (0, 1))
        yield {"directories": group, "files": files, "bytes": size} | place
