"""Bad bytes become one kind of error; ids come from what happened."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tidegate.errors import FormatError
from tidegate.events import (
    CleaningReleased,
    CommitCompleted,
    LockHold,
    LockReleased,
    RestoreRequested,
    SavepointRequested,
    VacuumFinished,
    VacuumKind,
    table_identity,
)
from tidegate.events.codec import decode, encode
from tidegate.events.wire import Wire

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
COMMIT = CommitCompleted.model_validate(
    {
        "table": "lake.sales.orders",
        "location": "/lake/orders",
        "occurred_at": NOON,
        "source": "ingest",
        "instant": "20261121120000000",
        "action": "commit",
    }
)
RELEASE = {"table": "a.b.c", "location": "/c", "occurred_at": NOON, "source": "w"}


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_called_a_format_error(body: bytes) -> None:
    for value in (body, encode(COMMIT)[:10] + body):
        try:
            event = decode(value)
        except FormatError:
            continue
        assert isinstance(event, CommitCompleted)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        pytest.param(None, "empty", id="a tombstone"),
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b'{"json": true}', "starts with 7b22", id="json"),
        pytest.param(b"\xc3\x01" + bytes(8), "unknown schema fingerprint", id="a foreign schema"),
        pytest.param(encode(COMMIT)[:-3], "corrupt CommitCompleted", id="cut short"),
        pytest.param(encode(COMMIT) + b"!", "1 trailing bytes", id="too long"),
    ],
)
def test_an_undecodable_message_says_what_is_wrong(value: bytes | None, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        decode(value)


def test_a_key_that_names_another_table_is_refused() -> None:
    with pytest.raises(FormatError, match="is not the event's table"):
        Wire().deserialize(b"lake.sales.returns", encode(COMMIT))


def test_the_same_commit_published_twice_has_one_id() -> None:
    later = COMMIT.model_dump() | {"event_id": "", "occurred_at": datetime.now(UTC)}

    assert CommitCompleted.model_validate(later).event_id == COMMIT.event_id


def test_two_spellings_of_a_table_give_one_id() -> None:
    shouted = COMMIT.model_dump() | {"event_id": "", "table": "Lake.SALES.orders"}

    assert CommitCompleted.model_validate(shouted) == COMMIT


def test_another_instant_has_another_id() -> None:
    other = COMMIT.model_dump() | {"event_id": "", "instant": "20261121120000001"}

    assert CommitCompleted.model_validate(other).event_id != COMMIT.event_id


def test_a_command_of_the_same_cause_has_one_id() -> None:
    asked = [
        SavepointRequested.about(
            COMMIT, instant=COMMIT.instant, requested_by="p", source="s", occurred_at=NOON
        )
        for _ in range(2)
    ]
    assert asked[0] == asked[1]
    assert asked[0].caused_by == COMMIT.event_id


@pytest.mark.parametrize("name", ["orders", "a.b", "a.b.c.d", "a..c", "a.b.c d", "", "a.b./etc"])
def test_a_table_has_three_names(name: str) -> None:
    with pytest.raises(FormatError):
        table_identity(name)


def test_a_vacuum_without_its_own_lock_among_the_holds_is_refused() -> None:
    with pytest.raises(ValidationError, match="a vacuum holds its own lock"):
        VacuumFinished.model_validate(
            RELEASE
            | {
                "kind": VacuumKind.MINOR,
                "directories": ("delta_1_3",),
                "min_write_id": 1,
                "max_write_id": 3,
                "valid_write_ids": "b.c:3:9::",
                "own_lock_id": 5,
                "locks": (LockHold(lock_id=6),),
            }
        )


def test_a_release_of_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="give lock_id, transaction_id or both"):
        LockReleased.model_validate(RELEASE)


def test_a_command_that_no_one_caused_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs caused_by"):
        CleaningReleased.model_validate(
            RELEASE
            | {
                "kind": VacuumKind.MINOR,
                "directories": ("delta_1_3",),
                "min_write_id": 1,
                "max_write_id": 3,
                "valid_write_ids": "b.c:3:9::",
            }
        )


REQUEST = {
    "table": "lake.sales.orders",
    "location": "/lake/orders",
    "occurred_at": datetime(2026, 11, 21, 12, tzinfo=UTC),
    "source": "ana",
    "caused_by": "a-finding",
    "savepoint": "20261121120000000",
    "requested_by": "ana",
    "reason": "a bad load",
}


@pytest.mark.parametrize(
    "shown",
    [
        {"plan_only": False},
        {"expected_plan": None},
        {"table": " LAKE.Sales.orders "},
        {"occurred_at": "2026-11-21T13:00:00+01:00"},
    ],
)
def test_the_same_event_in_another_form_has_the_same_id(shown: dict[str, object]) -> None:
    first = RestoreRequested.model_validate(REQUEST)
    assert RestoreRequested.model_validate(REQUEST | shown).event_id == first.event_id
    assert RestoreRequested.model_validate(REQUEST | {"plan_only": True}).event_id != first.event_id


def test_a_list_and_a_tuple_make_the_same_event() -> None:
    made = ("delta_0000001_0000003_v0000007",)
    shown = RELEASE | {
        "kind": "minor",
        "min_write_id": 1,
        "max_write_id": 3,
        "valid_write_ids": "b.c:3:9223372036854775807::",
        "own_lock_id": 9,
        "locks": [{"lock_id": 9}],
    }
    listed = VacuumFinished.model_validate(shown | {"directories": list(made)})
    assert listed.event_id == VacuumFinished.model_validate(shown | {"directories": made}).event_id


def test_a_fault_of_an_event_without_an_id_is_reported_once_and_at_its_field() -> None:
    with pytest.raises(ValidationError) as shown:
        RestoreRequested.model_validate(REQUEST | {"reason": ""})
    assert [error["loc"] for error in shown.value.errors()] == [("reason",)]


VACUUM = {
    "table": "a.b.c",
    "location": "/c",
    "occurred_at": NOON,
    "source": "w",
    "kind": "minor",
    "directories": ["delta_1_2", "delete_delta_1_2"],
    "min_write_id": 1,
    "max_write_id": 2,
    "valid_write_ids": "b.c:2:9::",
    "own_lock_id": 5,
    "locks": [{"lock_id": 5}, {"lock_id": 6}],
    "open_transactions": [8, 9],
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"directories": ["delete_delta_1_2", "delta_1_2"]}, id="directories"),
        pytest.param({"locks": [{"lock_id": 6}, {"lock_id": 5}]}, id="locks"),
        pytest.param({"locks": [{"lock_id": 5}, {"lock_id": 6, "owner": "x"}]}, id="an owner"),
        pytest.param({"open_transactions": [9, 8, 8]}, id="transactions"),
        pytest.param({"source": "bridge"}, id="another publisher"),
    ],
)
def test_a_vacuum_in_another_order_is_the_same_fact(change: dict[str, object]) -> None:
    same = VacuumFinished.model_validate(VACUUM | change)
    assert same.event_id == VacuumFinished.model_validate(VACUUM).event_id


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"valid_write_ids": "b.c:3:9::"}, id="snapshot"),
        pytest.param({"directories": ["delta_1_2"]}, id="directories"),
        pytest.param({"locks": [{"lock_id": 5}]}, id="holds"),
        pytest.param({"open_transactions": [8]}, id="transactions"),
        pytest.param({"max_write_id": 3}, id="range"),
    ],
)
def test_a_vacuum_with_other_content_is_another_fact(change: dict[str, object]) -> None:
    other = VacuumFinished.model_validate(VACUUM | change)
    assert other.event_id != VacuumFinished.model_validate(VACUUM).event_id


def test_the_end_of_a_lock_is_one_fact_with_its_transaction_or_without() -> None:
    lock, both, txn = (
        LockReleased.model_validate(RELEASE | ids).event_id
        for ids in ({"lock_id": 5}, {"lock_id": 5, "transaction_id": 9}, {"transaction_id": 9})
    )
    assert lock == both
    assert txn != lock
