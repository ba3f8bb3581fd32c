"""A commit that a person publishes, as the table's timeline has it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tidegate.errors import InvalidEventError, TidegateError
from tidegate.events import CommitCompleted
from tidegate.hudi_reader.table import NoSuchTable
from tidegate.publisher import timelines
from tidegate.storage import Storage


def completed_commit(
    table: str, location: str, instant: str, source: str, given: Mapping[str, str | None]
) -> CommitCompleted | str:
    """The event of a commit as the timeline has it, completed by what was given.

    Args:
        table: The table's name.
        location: Where it is.
        instant: The commit's instant, or latest.
        source: The name of the publishing application.
        given: Fields of the event; None: not given.

    Returns:
        Why the timeline was not read, else the event.

    Raises:
        NoSuchTable: there is no table, and the latest is asked for, or it would be seen.
        InvalidEventError: the timeline has no completed write of this instant, or contradicts
            what was given.
    """
    name, where = timelines.checked(table, location)
    is_latest = instant == "latest"
    try:
        found = (
            timelines.latest_commit(name, where, source)
            if is_latest
            else timelines.completed_commit(name, where, instant, source)
        )
    except InvalidEventError:
        raise
    except (TidegateError, OSError) as error:
        if is_latest or (isinstance(error, NoSuchTable) and _has_others(where)):
            raise
        return str(error)
    if isinstance(found, str):
        return found
    more = dict[str, str]()
    for field, value in given.items():
        known = getattr(found, field)
        if value is not None and known in {None, "unknown"}:
            more[field] = value
        elif value is not None and known != value.lower():
            raise InvalidEventError(
                f"--{field.replace('_', '-')} {value} contradicts the timeline of {where}: the"
                f" write {found.instant} has {known}"
            )
    return CommitCompleted.model_validate(found.model_dump() | more)


def _has_others(location: str) -> bool:
    """Whether the directory above is read and not empty: a table would be seen there."""
    with suppress(TidegateError, OSError):
        return bool(Storage().names(location.rpartition("/")[0] or "/"))
    return False
