"""Which cleaning a person means: by a table's name, or by an id of anything about it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.acid import NOON, TABLE, release
from tidegate.coordinator.quarantines import (
    QUARANTINE,
    Quarantine,
    end_quarantine,
    quarantine,
    quarantines,
)
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.tasks import QUEUED
from tidegate.errors import ConfigError
from tidegate.events import CleaningReleased, CleaningStarted, CleaningUndone, QuarantineRemoved
from tidegate.ops.waiting import by_id, newest_of

FIRST, SECOND = release(caused_by="vacuum-1"), release(caused_by="vacuum-2", partition="p=1")
FIELDS = {"occurred_at": NOON, "source": "cleaner", "files": 1, "bytes": 1}


def started(command: CleaningReleased, mode: str = "quarantine") -> CleaningStarted:
    fields = FIELDS | {"directories": ("delta_1_1",), "partition": command.partition}
    return CleaningStarted.about(command, **fields, mode=mode, keep_ms=1)


def over(
    kind: type[CleaningUndone | QuarantineRemoved], command: CleaningReleased
) -> CleaningUndone | QuarantineRemoved:
    fields = FIELDS | {"directories": (), "cleaning": command.event_id, "duration_ms": 1}
    return kind.about(command, **fields)


def there(*events: CleaningStarted | CleaningUndone | QuarantineRemoved) -> list[Quarantine]:
    """The quarantines that the coordinator knows after these events, a minute apart."""
    rows = Store((QUARANTINE, QUEUED))
    for number, event in enumerate(events):
        if isinstance(event, CleaningStarted):
            quarantine(event, rows, NOON + timedelta(minutes=number))
        else:
            end_quarantine(event, rows)
    return [row for row in quarantines(rows) if not row.undone]


def test_of_a_table_it_is_the_newest_that_is_still_there() -> None:
    deleted = started(release(caused_by="vacuum-3"), mode="delete")
    events = (started(FIRST), started(SECOND), deleted)

    found = newest_of(there(*events), TABLE)
    assert (found.cleaning, found.partition) == (SECOND.event_id, "p=1")
    undone = (*events, over(CleaningUndone, SECOND))
    assert newest_of(there(*undone), TABLE).cleaning == FIRST.event_id
    with pytest.raises(ConfigError, match="nothing in quarantine"):
        newest_of(there(*undone, over(QuarantineRemoved, FIRST)), TABLE)


def test_one_that_was_repeated_after_an_undo_is_there_again() -> None:
    events = there(started(FIRST), over(CleaningUndone, FIRST), started(FIRST))

    assert newest_of(events, TABLE).location == FIRST.location


def test_an_id_is_of_the_vacuum_the_cleaning_or_its_start() -> None:
    begun = started(FIRST)
    events = there(begun, started(SECOND))
    ids = ("vacuum-1", FIRST.event_id, FIRST.event_id[:12], begun.event_id, begun.event_id[:12])

    for event_id in ids:
        assert by_id(events, event_id).cleaning == FIRST.event_id, event_id
    with pytest.raises(ConfigError, match="no quarantined cleaning"):
        by_id(events, "vacuum-9")
    with pytest.raises(ConfigError, match="several"):
        by_id(events, "")
