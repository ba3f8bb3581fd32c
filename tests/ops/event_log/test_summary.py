"""Every event has a line for people and a row for scripts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import pytest

from support.deployment_events import (
    cleaned,
    cleaning_refused,
    completed,
    rejected,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from support.samples import commit, release
from tidegate.cli.options import since_of
from tidegate.cli.output import plain
from tidegate.errors import ConfigError
from tidegate.events import Event
from tidegate.events.reasons import Reason
from tidegate.events.topics import EVENT_TYPES
from tidegate.ops.event_log import EventFilter, LoggedEvent
from tidegate.ops.summary import asked_by, content_of, line_of, size
from tidegate.runtime.bus import Partition, Record

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def logged(event: Event | None) -> LoggedEvent:
    key = event.table.encode() if event else b"lake.sales.\xff"
    record = Record(Partition("t.outcomes", 2), 7, key, b"", (), 1_795_348_800_123)
    return LoggedEvent(record, event, "" if event else "no Avro")


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_kind_of_event_has_something_to_say(name: str) -> None:
    file = files("tidegate.events").joinpath("examples", f"{name}.json")

    assert content_of(EVENT_TYPES[name].model_validate_json(file.read_text("utf-8")))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (commit(1), "commit 20261121120000001"),
        (release(5), "lock 5 unlocked"),
        (vacuum(7, 8, transactions=(3,)), "holds: 2 locks, 1 open transaction"),
        (released(vacuum(7)), "minor that made delta_0000001_0000003"),
        (restore_request(plan_only=True), "to 20261121041551845, only a plan: a bad load"),
        (started(restore_request()), "1 instant, 3 files, 2.0 KiB, plan p1"),
        (completed(restore_request()), "1 instant rolled back, 3 files deleted"),
        (rejected(restore_request()), "writer-alive: a writer is at work"),
        (savepoint_created(1), "1 file in 1 partition"),
        (cleaned(released(vacuum(7))), "delta_0000001_0000001: 2 files, 100 bytes"),
        (cleaning_refused(released(vacuum(7))), "products-missing: delta_0000001_0000003"),
    ],
)
def test_the_line_of_an_event_says_what_matters(event: Event, said: str) -> None:
    assert said in line_of(logged(event))


def test_a_row_is_json_and_says_where_the_event_is() -> None:
    row = json.loads(json.dumps(logged(rejected(restore_request())).row, default=plain))

    assert row["at"] == "2026-11-22T12:00:00.123Z"
    assert (row["place"], row["reason"]) == ("t.outcomes/2/7", "writer-alive")
    assert row["problem"] is None
    unreadable = logged(None).row
    assert (unreadable["table"], unreadable["event"]) == ("lake.sales.�", None)
    assert unreadable["problem"] == "no Avro"


def test_bytes_are_said_in_their_unit() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 * 2**30, 3 * 2**50)] == [
        "0 bytes",
        "1023 bytes",
        "1.0 KiB",
        "5.0 GiB",
        "3072.0 TiB",
    ]


def test_a_filter_passes_what_meets_every_condition() -> None:
    event = rejected(restore_request())
    key, kind = event.table.encode(), type(event)

    assert EventFilter().may_match(None, None)
    assert EventFilter(tables=("lake.*",)).may_match(key, None)
    assert not EventFilter(tables=("lake.*",)).may_match(b"dock.a.b", kind)
    assert not EventFilter(kinds=frozenset({"RestoreRejected"})).may_match(key, None)
    assert EventFilter(kinds=frozenset({"RestoreRejected"})).may_match(key, kind)
    assert EventFilter(caused_by="restore").matches(event)
    assert not EventFilter(caused_by="store-1").matches(event)
    assert EventFilter(tables=("a.b.c", "a.b.?")).exact_tables is None
    assert EventFilter(tables=("a.b.c",)).exact_tables == frozenset({"a.b.c"})


def test_since_is_a_time_or_a_duration() -> None:
    assert since_of("2d", NOW) == NOW - timedelta(days=2)
    assert since_of("2026-11-20T12:00:00Z", NOW) == NOW - timedelta(days=2)
    assert since_of("1h", NOW) == NOW - timedelta(hours=1)
    assert since_of("99999d", NOW) == datetime(1970, 1, 1, tzinfo=UTC)
    for wrong in ("yesterday", "2026-13-01T00:00:00Z", "0s"):
        with pytest.raises(ConfigError):
            since_of(wrong, NOW)


@pytest.mark.parametrize(
    ("signer", "shown"), [(None, "root (unsigned)"), ("root", "root"), ("ana", "ana (as root)")]
)
def test_the_proven_name_comes_before_the_claimed_one(signer: str | None, shown: str) -> None:
    outcome = rejected(restore_request()).model_copy(
        update={"requested_by": "root", "signed_by": signer}
    )

    assert asked_by(outcome) == shown


def test_a_request_that_was_refused_for_its_signature_is_not_called_unsigned() -> None:
    outcome = rejected(restore_request()).model_copy(
        update={"requested_by": "root", "reason": Reason.BAD_SIGNATURE}
    )

    assert asked_by(outcome) == "root (signature not verified)"


def test_the_time_of_a_quarantine_is_a_duration() -> None:
    event = cleaned(released(vacuum(7))).model_copy(update={"keep_ms": 60_000})

    assert "in quarantine for 1m" in content_of(event)
