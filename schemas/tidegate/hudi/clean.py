"""Clean plan and metadata: from which instant on a clean keeps every file."""

from __future__ import annotations

from tidegate.errors import FormatError
from tidegate.hudi import containers


def kept_from(completed: bytes) -> str:
    """A completed clean's earliest commit to retain; empty where its policy counts versions.

    Raises:
        FormatError: it is no clean metadata.
    """
    bound = containers.decode(completed).get("earliestCommitToRetain")
    if not isinstance(bound, str):
        raise FormatError("no clean metadata")
    return bound


def plans_to_keep_from(requested: bytes) -> str | None:
    """A clean plan's earliest instant to retain; None where its policy counts versions.

    Raises:
        FormatError: it is no clean plan.
    """
    record = containers.decode(requested)
    if "earliestInstantToRetain" not in record:
        raise FormatError("no clean plan")
    instant = record["earliestInstantToRetain"]
    with containers.reading("clean plan"):
        return None if instant is None else str(instant["timestamp"])
