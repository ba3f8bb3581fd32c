from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.samples import NOON, commit, message
from tidegate.cli.options import duration, since_of
from tidegate.errors import ConfigError
from tidegate.events import Event
from tidegate.events.codec import Headers
from tidegate.events.wire import Wire
from tidegate.ops.event_log import EventFilter, LoggedEvent
from tidegate.ops.replay.events import _EventReplay, message_of, select_events, within
from tidegate.ops.replay.group import Target, _GroupPosition, _OffsetReset, plan_group
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record

LOCKS_0 = Partition("tidegate.locks", 0)


def moved(position: _GroupPosition, target: Target) -> tuple[int, int] | None:
    """To which offset a group would go, and how many records it would read again."""
    plan = plan_group("coordinator", "tidegate.coordinator", {LOCKS_0: position}, target)
    return (plan.resets[0].to_offset, plan.resets[0].again) if plan.resets else None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(4, (4, 4), id="to an offset"),
        pytest.param(1, (3, 5), id="to an offset that is off the topic"),
        pytest.param(0, (3, 5), id="to the earliest that is left"),
        pytest.param(9, None, id="never forward"),
        pytest.param(8, None, id="not where it is"),
    ],
)
def test_a_group_goes_back_within_what_the_topic_holds(
    target: Target, expected: tuple[int, int] | None
) -> None:
    assert moved(_GroupPosition(range(3, 10), committed=8), target) == expected


def test_a_moment_is_where_the_broker_says() -> None:
    target = NOON

    assert moved(_GroupPosition(range(3, 10), committed=8, at_moment=5), target) == (5, 3)
    assert moved(_GroupPosition(range(3, 10), committed=8, at_moment=10), target) is None


def test_a_group_that_never_committed_begins_at_the_beginning_anyway() -> None:
    assert moved(_GroupPosition(range(3, 10), committed=None), 0) is None


OFFSETS = st.none() | st.integers(0, 12)


@given(
    first=st.integers(0, 6),
    count=st.integers(0, 6),
    committed=OFFSETS,
    applied=OFFSETS,
    recreated=st.booleans(),
    target=st.integers(0, 14),
)
def test_whatever_is_known_of_a_group_it_passes_over_nothing_and_starts_afterwards(  # noqa: PLR0913, PLR0917 - what is known
    first: int,
    count: int,
    committed: int | None,
    applied: int | None,
    recreated: bool,  # noqa: FBT001 - drawn
    target: Target,
) -> None:
    held = range(first, first + count)
    position = _GroupPosition(held, committed, applied=applied, topic_recreated=recreated)

    plan = plan_group("coordinator", "tidegate.coordinator", {LOCKS_0: position}, target)

    if not plan.resets:
        assert not position.fault
        return
    [reset] = plan.resets
    places = [first] if position.topic_recreated else position.next_offsets
    assert first <= reset.to_offset <= min(max(first, min(places)), held.stop)
    after = _GroupPosition(held, reset.to_offset, applied=reset.to_offset)
    assert not after.fault


def test_a_group_whose_place_is_gone_goes_to_the_nearest_that_is_left() -> None:
    assert moved(_GroupPosition(range(3, 10), committed=1), 0) == (3, 0)
    assert moved(_GroupPosition(range(3, 10), committed=1), 9) == (3, 0)
    assert moved(_GroupPosition(range(3, 10), committed=20), 0) == (3, 7)


@pytest.mark.parametrize(
    ("committed", "applied", "target", "expected"),
    [
        pytest.param(8, 8, 5, (5, 3), id="both go back"),
        pytest.param(8, 8, 9, None, id="never forward"),
        pytest.param(8, 9, 9, None, id="died before the offset"),
        pytest.param(8, 9, 6, (6, 3), id="back over what is remembered"),
        pytest.param(3, 8, 0, (3, 5), id="the group stands there already"),
        pytest.param(3, 3, 0, None, id="both stand there already"),
        pytest.param(None, 8, 0, (3, 5), id="the broker forgot the group"),
        pytest.param(None, None, 0, None, id="never begun"),
        pytest.param(8, 5, 7, (5, 3), id="the state ends before the group"),
        pytest.param(8, 5, 12, (5, 3), id="from where its state ends"),
        pytest.param(8, 3, 7, (3, 5), id="the state is lost"),
        pytest.param(8, 1, 7, (3, 5), id="what comes next is off the topic"),
        pytest.param(None, 20, 0, (3, 7), id="applied beyond the end"),
    ],
)
def test_the_coordinator_s_group_goes_back_to_where_its_state_can_follow(
    committed: int | None, applied: int | None, target: Target, expected: tuple[int, int] | None
) -> None:
    assert moved(_GroupPosition(range(3, 10), committed, applied=applied), target) == expected


@pytest.mark.parametrize(
    ("committed", "target", "expected"), [(None, 0, (3, 0)), (3, 0, (3, 0)), (8, 7, (3, 5))]
)
def test_on_a_topic_that_was_created_again_it_begins_at_the_start(
    committed: int | None, target: Target, expected: tuple[int, int]
) -> None:
    position = _GroupPosition(range(3, 10), committed, applied=8, topic_recreated=True)

    assert moved(position, target) == expected


def test_a_plan_says_what_would_change_and_leaves_out_what_would_not() -> None:
    positions = {
        Partition("tidegate.vacuums", 1): _GroupPosition(range(5), committed=5),
        LOCKS_0: _GroupPosition(range(9), committed=9),
        Partition("tidegate.locks", 1): _GroupPosition(range(0), committed=0),
    }

    plan = plan_group("coordinator", "tidegate.coordinator", positions, 0)

    assert plan.resets == (
        _OffsetReset(LOCKS_0, 9, 0, 9),
        _OffsetReset(Partition("tidegate.vacuums", 1), 5, 0, 5),
    )
    assert plan.records == 14
    with_restores = replace(plan, restores=2)
    needed, _ = with_restores.sentences(executed=False)
    assert needed == "2 restore requests included: --execute needs --with-restores"
    included, _ = with_restores.sentences(executed=True)
    assert included == "2 restore requests included"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1h", timedelta(hours=1)), ("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4))],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "0s", "-1h", "PT1H", "h1"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        duration(text)


def test_a_time_before_kafka_s_first_is_the_first() -> None:
    first = datetime(1970, 1, 1, tzinfo=UTC)

    assert since_of("900000d", NOON) == first
    assert since_of("999999d", NOON) == first
    assert since_of("1h", NOON) == NOON - timedelta(hours=1)
    assert since_of("1969-12-31T23:59:59.999Z") == first
    assert since_of("0001-01-01T00:00:00+05:00") == first


def test_a_time_has_a_zone() -> None:
    assert since_of("2026-11-21T13:00:00+01:00") == NOON
    with pytest.raises(ConfigError, match="no time zone"):
        since_of("2026-11-21T13:00:00")


def record(sent: Message, offset: int, seconds: int = 0) -> Record:
    at = (NOON + timedelta(seconds=seconds)).timestamp() * 1000
    where = Partition(sent.topic, 2)
    return Record(where, offset, sent.key, sent.value, sent.headers, int(at))


HISTORY = [
    record(message(commit(1)), 10),
    record(message(commit(2, "lake.sales.other")), 11, 1),
    record(message(commit(3)), 12, 2),
]


def chosen(**conditions: object) -> list[int]:
    wanted = EventFilter(**conditions)  # type: ignore[arg-type]
    return [found.record.offset for found in select_events(HISTORY, wanted, Wire())]


def test_events_are_chosen_by_table_and_id() -> None:
    assert chosen() == [10, 11, 12]
    assert chosen(tables=("lake.sales.orders",)) == [10, 12]
    assert chosen(event_ids=(commit(3).event_id,)) == [12]
    assert chosen(event_ids=(commit(3).event_id[:8], commit(1).event_id[:8])) == [10, 12]


def test_an_event_goes_out_as_it_was_and_says_from_where() -> None:
    [found] = select_events(HISTORY[:1], EventFilter(), Wire())
    assert found.event is not None

    sent = message_of(found)

    original = message(commit(1))
    assert (sent.topic, sent.key, sent.value) == (original.topic, original.key, original.value)
    assert sent.partition == 2
    assert sent.headers == (*original.headers, ("tidegate-replayed-from", b"tidegate.commits/2/10"))


def test_an_id_goes_out_once_and_what_can_t_be_read_is_left_out() -> None:
    [first] = select_events(HISTORY[:1], EventFilter(), Wire())
    assert first.event is not None
    poison = Message("tidegate.commits", b"lake.sales.orders", b"{}")
    replayed = [HISTORY[0], record(message_of(first), 13, 3), record(poison, 14, 4)]

    plan = _EventReplay({}, EventFilter())
    plan.take(select_events(replayed, plan.wanted, Wire()), 10, Wire())

    assert [found.place for found in plan.listed] == ["tidegate.commits/2/10"]
    assert [unreadable.place for unreadable in plan.listed_unreadable] == ["tidegate.commits/2/14"]
    assert plan.listed_unreadable[0].problem
    assert (plan.events, plan.unreadable) == (1, 1)


def test_what_can_t_be_read_is_reported_unless_its_key_is_another_or_an_id_is_sought() -> None:
    nameless = Message("tidegate.commits", None, b"{}")
    named = Message("tidegate.commits", b"lake.sales.orders", b"{}")
    other = Message("tidegate.commits", b"lake.sales.other", b"{x}")
    records = [record(nameless, 1), record(named, 2), record(other, 3)]

    def shown(**conditions: object) -> list[int]:
        wanted = EventFilter(**conditions)  # type: ignore[arg-type]
        found = list(select_events(records, wanted, Wire()))
        assert all(item.event is None for item in found)
        return [item.record.offset for item in found]

    assert shown() == [1, 2, 3]
    assert shown(tables=("lake.sales.orders",)) == [2]
    assert shown(event_ids=("x",)) == []


def test_events_of_one_batch_keep_their_order() -> None:
    batch = [record(message(commit(n)), n) for n in (9, 10, 11)]

    found = select_events(batch, EventFilter(), Wire())

    assert [item.record.offset for item in found] == [9, 10, 11]


def test_only_what_offsets_can_cover_is_read() -> None:
    first, second = Partition("tidegate.commits", 0), Partition("tidegate.commits", 1)
    spans = {first: range(100, 1_000_000), second: range(50)}

    assert within(spans, None) == spans
    assert within(spans, None, range(10, 40)) == {first: range(0), second: range(10, 40)}
    assert within(spans, None, range(40, 10)) == {first: range(0), second: range(0)}
    assert within(spans, 1, range(10, 40)) == {second: range(10, 40)}
    assert within(spans, 0, range(200, 2**63 - 1)) == {first: range(200, 1_000_000)}
    with pytest.raises(ConfigError, match=r"tidegate.commits has no partition 2"):
        within(spans, 2)


class Counting(Wire):
    """Counts what is decoded."""

    decoded = 0

    def deserialize(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Event:
        self.decoded += 1
        return super().deserialize(key, value, headers)


def test_a_plan_of_many_holds_what_is_listed_and_decodes_what_may_be_selected() -> None:
    made: list[weakref.ref[Event]] = []
    most = 0

    def history() -> Iterator[Record]:
        for number in range(20_000):
            table = "lake.sales.orders" if number % 5 == 0 else "lake.sales.other"
            yield record(message(commit(number, table)), number)

    def watched(found: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
        nonlocal most
        for item in found:
            if item.event is not None:
                made.append(weakref.ref(item.event))
            if len(made) % 500 == 0:
                most = max(most, sum(event() is not None for event in made))
            yield item

    wire, plan = Counting(), _EventReplay({}, EventFilter(("lake.sales.orders",)))
    plan.take(watched(select_events(history(), plan.wanted, wire)), 10, wire)

    assert (plan.events, len(plan.listed), wire.decoded) == (4_000, 10, 4_000)
    assert 10 <= most <= 10 + 3


def test_ids_are_remembered_for_some_time_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ops.replay.events.REMEMBERED", 3)
    numbers = [1, 2, 1, 3, 1, 4, 2, 5, 6, 7, 8, 9, 1]
    history = [record(message(commit(number)), at) for at, number in enumerate(numbers)]

    found = [event.record.offset for event in select_events(history, EventFilter(), Wire())]

    assert found == [0, 1, 3, 5, 7, 8, 9, 10, 11, 12]


def test_a_record_that_the_client_cannot_read_may_be_of_the_selected_table() -> None:
    lost = Record(LOCKS_0, 7, None, None, (), 0, "a batch can't be unpacked")

    [found] = select_events([lost], EventFilter(("lake.sales.orders",)), Wire())

    assert (found.event, found.problem) == (None, lost.unreadable)
