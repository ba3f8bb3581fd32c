"""Which cleaning a person means: by a table's name, or by an id of anything about it."""

from __future__ import annotations

import pytest

from support.acid import NOON, TABLE, release
from tidegate.errors import ConfigError
from tidegate.events import (
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    DirectoriesCleaned,
    Event,
    QuarantineRemoved,
)
from tidegate.ops.quarantine import by_id, newest_of

FIRST, SECOND = release(caused_by="vacuum-1"), release(caused_by="vacuum-2", partition="p=1")
FIELDS = {"occurred_at": NOON, "source": "cleaner", "files": 1, "bytes": 1}


def started(command: CleaningReleased, mode: str = "quarantine") -> CleaningStarted:
    fields = FIELDS | {"directories": ("delta_1_1",), "partition": command.partition}
    return CleaningStarted.about(command, **fields, mode=mode, keep_ms=1)


def cleaned(command: CleaningReleased, *names: str) -> DirectoriesCleaned:
    fields = FIELDS | {"directories": names, "partition": command.partition}
    return DirectoriesCleaned.about(command, **fields, mode="quarantine", keep_ms=1, duration_ms=1)


def over(kind: type[CleaningUndone | QuarantineRemoved], command: CleaningReleased) -> Event:
    fields = FIELDS | {"directories": (), "cleaning": command.event_id, "duration_ms": 1}
    return kind.about(command, **fields)


def test_of_a_table_it_is_the_newest_that_is_still_there() -> None:
    events: list[Event] = [
        started(FIRST),
        cleaned(FIRST, "delta_1_1"),
        started(SECOND),
        started(release(caused_by="vacuum-3"), mode="delete"),
    ]
    found = newest_of(events, TABLE)
    assert (found.cleaning, found.partition) == (SECOND.event_id, "p=1")
    events.append(over(CleaningUndone, SECOND))
    assert newest_of(events, TABLE).cleaning == FIRST.event_id
    events.append(over(QuarantineRemoved, FIRST))
    with pytest.raises(ConfigError, match="nothing in quarantine"):
        newest_of(events, TABLE)


def test_one_that_was_repeated_after_a_crash_or_an_undo_is_there_again() -> None:
    events = [started(FIRST), over(CleaningUndone, FIRST), cleaned(FIRST), started(FIRST)]
    assert newest_of(events, TABLE).cleaning == FIRST.event_id
    assert newest_of(events[:1], TABLE).location == FIRST.location


def test_an_id_is_of_the_vacuum_the_command_or_an_outcome() -> None:
    events = [started(FIRST), cleaned(FIRST, "delta_1_1"), started(SECOND)]
    for event_id in (
        "vacuum-1",
        FIRST.event_id,
        FIRST.event_id[:12],
        events[0].event_id,
        events[1].event_id[:13],
    ):
        assert by_id(events, event_id).cleaning == FIRST.event_id, event_id
    with pytest.raises(ConfigError, match="no quarantined cleaning"):
        by_id(events, "vacuum-9")
    with pytest.raises(ConfigError, match="several"):
        by_id(events, "")
