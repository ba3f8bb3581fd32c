"""The contract with other applications, written to files."""

from __future__ import annotations

from pathlib import Path

from tidegate.events.catalogue import EVENT_TYPES
from tidegate.events.schema import schema_text


def export_schemas(folder: Path) -> list[Path]:
    """Write the `.avsc` of every event, replacing existing files, and return the paths.

    Raises:
        OSError: a file can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.avsc" for name in sorted(EVENT_TYPES)]
    for file in files:
        file.write_text(schema_text(file.stem), encoding="utf-8")
    return files
