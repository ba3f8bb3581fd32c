from __future__ import annotations

from typing import Any

import pytest

from support.samples import NOON, commit, message
from tidegate.errors import PermanentError
from tidegate.events import Event, RestoreRequested
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import (
    DeadLetter,
    DeadLetterFilter,
    audit_event,
    difference,
    is_destructive,
    read_dead_letter,
    redriven_message,
)
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import ID_HEADER, dead_letter, uncopied, without_value
from tidegate.runtime.input.uncopied import Uncopied

COMMITS_2 = Partition("tidegate.commits", 2)


def original(sent: Message, offset: int = 7) -> Record:
    return Record(COMMITS_2, offset, sent.key, sent.value, sent.headers, 1_000)


def set_aside(
    sent: Message, offset: int = 7, service: str = "coordinator", error: str = "no luck"
) -> DeadLetter:
    """The dead listed of a message, as it is read from its topic."""
    record = original(sent, offset)
    listed = dead_letter(record, service, PermanentError(error), "tidegate.dead-letters")
    where = Partition(listed.topic, 2)
    return read_dead_letter(
        Record(where, 0, listed.key, listed.value, listed.headers, 2_000), Wire()
    )


def event(number: int = 1) -> tuple[Event, Message]:
    return commit(number), message(commit(number))


def test_a_dead_letter_has_its_message_its_origin_and_its_reason() -> None:
    shown, sent = event()

    listed = set_aside(sent)

    assert listed.service == "coordinator"
    assert (listed.origin, listed.origin_offset) == (COMMITS_2, 7)
    assert listed.error == "no luck"
    assert listed.table == "lake.sales.orders"
    assert listed.headers == sent.headers
    assert listed.event(Wire()) == shown


@pytest.mark.parametrize("key", [None, b"\xff", b"42"])
def test_a_dead_letter_whose_key_names_no_table_has_the_table_of_its_event(
    key: bytes | None,
) -> None:
    shown, sent = event()

    listed = set_aside(sent._replace(key=key))

    assert (listed.table, listed.content(Wire())) == ("lake.sales.orders", shown)
    assert listed.event(Wire()) is None  # no service accepts it: it fails again
    assert set_aside(sent._replace(key=key, value=b"{}")).table == "unknown.unknown.unknown"


def test_a_redriven_dead_letter_is_its_original_message_with_a_mark() -> None:
    _, sent = event()
    listed = set_aside(sent)

    again = redriven_message(listed, original(sent))

    assert (again.topic, again.key, again.value) == ("tidegate.commits", sent.key, sent.value)
    mark = ("tidegate-redriven-from", listed.dead_letter_id.encode())
    assert again.headers == (*sent.headers, mark)
    assert again.partition is None


def test_a_message_without_a_key_goes_back_to_its_own_partition() -> None:
    sent = Message("tidegate.commits", None, b"{}")
    again = redriven_message(set_aside(sent), original(sent))

    assert (again.key, again.value, again.partition) == (None, b"{}", 2)


def test_sent_back_and_set_aside_again_it_keeps_one_mark_and_its_own_headers() -> None:
    _, sent = event()
    again = redriven_message(set_aside(sent), original(sent))
    second = set_aside(again, offset=9)

    third = redriven_message(second, original(again, offset=9))

    mark = ("tidegate-redriven-from", second.dead_letter_id.encode())
    assert third.headers == (*sent.headers, mark)


def test_a_dead_letter_of_another_tool_is_read_too() -> None:
    headers = (
        ("trace", b"abc"),
        ("x-original-topic", b"tidegate.commits"),
        ("x-original-partition", b"\x00\x00\x00\x02"),  # Spring writes numbers in binary
        ("x-exception-message", b"boom"),
    )
    where = Partition("tidegate.dead-letters", 0)

    listed = read_dead_letter(Record(where, 5, b"no table", b"{}", headers, 2_000), Wire())

    assert listed.origin.topic == "tidegate.commits"
    assert listed.headers == (("trace", b"abc"),)
    assert (listed.error, listed.service, listed.table) == (
        "boom",
        "(unknown)",
        "unknown.unknown.unknown",
    )
    assert listed.event(Wire()) is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"service": "restorer"}, True, id="service"),
        pytest.param({"service": "cleaner"}, False, id="another service"),
        pytest.param({"topic": "commits"}, True, id="topic by its short name"),
        pytest.param({"topic": "tidegate.commits"}, True, id="topic by its full name"),
        pytest.param({"topic": "mits"}, False, id="another topic"),
        pytest.param({"table": "lake.sales.orders"}, True, id="table"),
        pytest.param({"table": "lake.sales.other"}, False, id="another table"),
        pytest.param({"reason": "SUCH bucket"}, True, id="text in the reason, in any case"),
        pytest.param({"reason": "timeout"}, False, id="another reason"),
        pytest.param({"service": "restorer", "reason": "timeout"}, False, id="all must hold"),
    ],
)
def test_dead_letters_are_chosen(conditions: dict[str, str], *, expected: bool) -> None:
    _, sent = event()
    listed = set_aside(sent, service="restorer", error="No such bucket")

    assert DeadLetterFilter(**conditions).matches(listed) is expected  # type: ignore[arg-type]


def test_an_id_may_be_cut_short() -> None:
    _, sent = event()
    listed = set_aside(sent)

    assert DeadLetterFilter(ids=(listed.dead_letter_id[:8],)).matches(listed)
    assert not DeadLetterFilter(ids=("x",)).matches(listed)


FORGED = RestoreRequested(
    event_id="5f0a1c7e-0000-5000-8000-000000000001",
    table="lake.sales.orders",
    location="/lake/orders",
    occurred_at=NOON,
    source="mallory",
    savepoint="20261121041551845",
    requested_by="ana",
    reason="none",
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({}, "", id="the record itself"),
        pytest.param({"value": b"other"}, "value and record", id="another value"),
        pytest.param({"key": b"other"}, "key and record", id="another key"),
        pytest.param({"headers": (("a", b"b"),)}, "headers and record", id="other headers"),
        pytest.param({"timestamp_ms": 999}, "timestamp and record", id="another time"),
    ],
)
def test_a_dead_letter_is_what_the_record_at_its_origin_is(
    change: dict[str, Any], said: str
) -> None:
    _, sent = event()
    found = difference(set_aside(sent), original(sent)._replace(**change))

    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_a_dead_letter_whose_origin_is_gone_is_refused() -> None:
    _, sent = event()

    assert difference(set_aside(sent), None) == "its origin is no longer in the topic"


def test_of_a_dead_letter_without_its_value_the_rest_is_compared() -> None:
    _, sent = event()
    listed = without_value(
        dead_letter(original(sent), "restorer", PermanentError("x"), "tidegate.dead-letters")
    )
    where = Partition(listed.topic, 2)
    found = read_dead_letter(
        Record(where, 0, listed.key, listed.value, listed.headers, 2_000), Wire()
    )

    assert difference(found, original(sent)) == ""
    assert difference(found, original(sent)._replace(key=b"other")) != ""


def test_messages_that_were_not_copied_are_published_again_from_their_topic() -> None:
    known = Uncopied(reason="junk", count=7, first=3, last=12, since_ms=1_000)
    sent = uncopied(Partition("lake.commits", 2), known, "gate", "lake.dead-letters")
    where = Partition(sent.topic, 2)
    found = read_dead_letter(Record(where, 0, sent.key, sent.value, sent.headers, 2_000), Wire())

    assert found.origin_location == "lake.commits/2/3"
    assert found.error.startswith(
        "7 more messages of lake.commits[2] are invalid, too many to copy them all: between the"
        " offsets 3 and 12; the last one: junk."
    )
    assert difference(found, None) == (
        "it stands for 7 messages that were not copied. Publish them again before you discard it:"
        " tidegate replay events --topic lake.commits --partition 2 --from-offset 3 --to-offset 13"
        " --execute"
    )


def test_a_restore_and_a_released_cleaning_destroy_and_a_plan_and_a_commit_do_not() -> None:
    assert is_destructive(FORGED)
    assert not is_destructive(FORGED.model_copy(update={"plan_only": True}))
    assert not is_destructive(commit(1))
    assert not is_destructive(None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__connect.errors.topic", b"t" * 5_000),
        ("__connect.errors.partition", b"9" * 5_000),
        ("__connect.errors.partition", b"99999999999999999999"),
        ("__connect.errors.offset", b"9" * 5_000),
        ("__connect.errors.connector.name", b"s" * 5_000),
        ("x-original-timestamp", b"9" * 5_000),
        (ID_HEADER, b"i" * 5_000),
    ],
)
def test_headers_that_no_broker_has_written_can_still_be_listed_and_discarded(
    name: str, value: bytes
) -> None:
    _, sent = event()
    record = set_aside(sent).record
    forged = read_dead_letter(record._replace(headers=((name, value),)), Wire())

    assert audit_event(forged, "ana", NOON, Wire(), discarded="forged").requested_by == "ana"
