"""The event of a completed write, from the file of its instant."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from tidegate.errors import InvalidEventError
from tidegate.errors.validation import validation_message
from tidegate.events import CommitCompleted, TableType
from tidegate.events.fields import MAX_METADATA
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.instant import Instant
from tidegate.hudi_reader.table import HudiTable
from tidegate.storage import NotFound

log = logging.getLogger(__name__)
_MAX_TEXT: Final = 1_000
_MAX_METADATA_CHARS: Final = 100_000


def completion_of(instant: Instant) -> str:
    """When a write completed, else its requested time: the order of a timeline's writes."""
    return instant.completion or instant.timestamp


def commit_of(
    table: HudiTable, instant: Instant, *, name: str, source: str, reconciled: bool = False
) -> CommitCompleted | None:
    """The event of a completed write; None if its file is gone, rolled back or archived.

    A file that can't be read leaves out its statistics: the commit is published nevertheless.

    Args:
        table: The table, as it was read.
        instant: The completed write.
        name: The table's name, catalog.database.table.
        source: The publishing application.
        reconciled: Whether its writer did not publish it.

    Raises:
        InvalidEventError: the name, the location or the instant does not fit an event.
    """
    fields = {
        "table": name,
        "location": table.location,
        "occurred_at": datetime.now(UTC),
        "source": source,
        "instant": instant.timestamp,
        "completion_time": instant.completion,
        "action": instant.action,
        "table_type": TableType(table.properties.table_type.lower()),
        "reconciled": reconciled,
    }
    try:
        return CommitCompleted.model_validate(fields | _numbers(table.read_commit(instant)))
    except NotFound:
        return None
    except ValueError as error:  # unreadable, or a number that no event has
        found = validation_message(error) if isinstance(error, ValidationError) else str(error)
        try:
            event = CommitCompleted.model_validate(fields)
        except ValidationError as fault:
            problem = f"{instant.timestamp}.{instant.action}: {validation_message(fault)}"
            raise InvalidEventError(problem) from fault
        log.warning("%s: published without its statistics: %s", table.location, found)
        return event


def _numbers(metadata: CommitMetadata) -> dict[str, Any]:
    return {
        "operation": (metadata.operation or "unknown").lower()[:_MAX_TEXT],
        "files_written": len(metadata.writes),
        "records_written": sum(write.records for write in metadata.writes),
        "bytes_written": sum(write.size for write in metadata.writes),
        "extra_metadata": _publishable(metadata.extra.items()),
    }


def _publishable(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The writer's extra metadata, without the table's schema, which may be large."""
    found, size = dict[str, str](), 0
    for name, value in pairs:
        if name == "schema" or not 0 < len(name) <= _MAX_TEXT or len(value) > _MAX_TEXT:
            continue
        size += len(name) + len(value)
        if size > _MAX_METADATA_CHARS or len(found) == MAX_METADATA:
            break
        found[name] = value
    return found
