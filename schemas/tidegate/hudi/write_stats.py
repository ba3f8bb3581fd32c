"""The files that a commit wrote: the few fields that are read of each, of the thirty there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import fastavro
from fastavro.schema import UnknownType

Schema = Any

STATS: Final = "partitionToWriteStats"
FIELDS: Final = ("fileId", "path", "prevCommit", "numWrites", "fileSizeInBytes")
"""The fields of a write stat that are read."""
_NO_COMMIT: Final = (None, "", "null")


class WriteStat(NamedTuple):
    """One file that a commit wrote.

    `path` is relative to the table and `size` is in bytes. `previous` is the instant of the file
    group's previous slice, None for a new group.
    """

    partition: str
    file_id: str
    path: str
    previous: str | None
    size: int
    records: int = 0


def write_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    """A write stat from the fields that JSON or fastavro returned."""
    previous = stat.get("prevCommit")
    return WriteStat(
        partition=partition,
        file_id=stat["fileId"] or "",
        path=stat["path"],
        previous=None if previous in _NO_COMMIT else previous,
        size=stat.get("fileSizeInBytes") or 0,
        records=stat.get("numWrites") or 0,
    )


def short_stat(found: dict[str, Any]) -> dict[str, Any]:
    """A JSON object; if it is a write stat, only the fields that are read.

    Dictionaries of all thirty would take 250 MB for a commit of 100,000 files.
    """
    if "fileId" not in found or not isinstance(found.get("numWrites"), int):
        return found
    return {name: found[name] for name in FIELDS if name in found}


def short_schema(schema: Schema) -> Schema | None:
    """A schema with which fastavro skips the fields that are not read; None: read all of them.

    Args:
        schema: The writer's, not parsed by fastavro.
    """
    match schema:
        case {
            "type": "record",
            "fields": [
                {
                    "name": name,
                    "type": [
                        "null",
                        {
                            "type": "map",
                            "values": {"type": "array", "items": {"fields": fields} as stat},
                        },
                    ],
                } as stats,
                *rest,
            ],
        } if name == STATS:
            items = stat | {"fields": [f for f in fields if f["name"] in FIELDS]}
            of_map = {"type": "map", "values": {"type": "array", "items": items}}
            short = schema | {"fields": [stats | {"type": ["null", of_map]}, *rest]}
        case _:
            return None
    try:
        return fastavro.parse_schema(short)
    except UnknownType:  # a type that is left out is used elsewhere, too
        return None
