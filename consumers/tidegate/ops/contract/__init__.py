"""The contract with other applications: schemas written to files, and examples of events."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from tidegate.events import Fact
from tidegate.events.codec import schema_text
from tidegate.events.topics import EVENT_TYPES


def export_schemas(folder: Path) -> list[Path]:
    """Write the `.avsc` of every event, replacing existing files, and return the paths.

    Raises:
        OSError: a file can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.avsc" for name in sorted(EVENT_TYPES)]
    for file in written:
        file.write_text(schema_text(file.stem), encoding="utf-8")
    return written


def example_of(kind: str) -> dict[str, Any]:
    """A valid event of a kind, as JSON values; a fact has no id here, because it is derived.

    Args:
        kind: A name in `EVENT_TYPES`.
    """
    file = files("tidegate.events").joinpath("examples", f"{kind}.json")
    fields: dict[str, Any] = json.loads(file.read_text("utf-8"))
    if issubclass(EVENT_TYPES[kind], Fact):
        del fields["event_id"]
    return fields
