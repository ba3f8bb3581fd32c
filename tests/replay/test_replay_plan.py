from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.samples import NOON, commit, message
from tidegate.errors import ConfigError
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.replay.events import Selection, select_events
from tidegate.replay.memory import AnyState, put_back
from tidegate.replay.plan import Move, Standing, plan_group
from tidegate.replay.targets import Back, Target, ToEarliest, ToMoment, ToOffset, duration, moment
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.ledger import ledger_for

LOCKS_0 = Partition("tidegate.locks", 0)


def moved(standing: Standing, target: Target) -> tuple[int, int] | None:
    """To which offset a group would go, and how many records it would read again."""
    plan = plan_group("reader-gate", "tidegate.reader-gate", {LOCKS_0: standing}, target)
    return (plan.moves[0].to_offset, plan.moves[0].again) if plan.moves else None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(ToOffset(4), (4, 4), id="to an offset"),
        pytest.param(ToOffset(1), (3, 5), id="to an offset that is off the topic"),
        pytest.param(ToEarliest(), (3, 5), id="to the earliest that is left"),
        pytest.param(Back(2), (6, 2), id="so many back"),
        pytest.param(Back(100), (3, 5), id="more back than there is"),
        pytest.param(ToOffset(9), None, id="never forward"),
        pytest.param(ToOffset(8), None, id="not where it is"),
    ],
)
def test_a_group_goes_back_within_what_the_topic_holds(
    target: Target, expected: tuple[int, int] | None
) -> None:
    assert moved(Standing(range(3, 10), committed=8), target) == expected


def test_a_moment_is_where_the_broker_says() -> None:
    target = ToMoment(NOON)

    assert moved(Standing(range(3, 10), committed=8, at_moment=5), target) == (5, 3)
    assert moved(Standing(range(3, 10), committed=8, at_moment=10), target) is None


def test_a_group_that_never_committed_begins_at_the_beginning_anyway() -> None:
    assert moved(Standing(range(3, 10), committed=None), ToEarliest()) is None


def test_a_group_whose_place_is_gone_goes_to_the_nearest_that_is_left() -> None:
    assert moved(Standing(range(3, 10), committed=1), ToEarliest()) == (3, 0)
    assert moved(Standing(range(3, 10), committed=20), ToEarliest()) == (3, 7)


def test_a_plan_says_what_would_change_and_leaves_out_what_would_not() -> None:
    standings = {
        Partition("tidegate.vacuums", 1): Standing(range(5), committed=5),
        LOCKS_0: Standing(range(9), committed=9),
        Partition("tidegate.locks", 1): Standing(range(0), committed=0),
    }

    plan = plan_group("reader-gate", "tidegate.reader-gate", standings, ToEarliest())

    assert plan.moves == (
        Move(LOCKS_0, 9, 0, 9),
        Move(Partition("tidegate.vacuums", 1), 5, 0, 5),
    )
    assert plan.records == 14
    assert plan.back(1) == {"tidegate.vacuums": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", timedelta(hours=1)),
        ("1d2h3m4s", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT1H", timedelta(hours=1)),
        ("P1DT12H", timedelta(days=1.5)),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "0s", "-PT1H", "1w", "h1"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        duration(text)


def test_a_time_has_a_zone() -> None:
    assert moment("2026-11-21T13:00:00+01:00") == NOON
    with pytest.raises(ConfigError, match="no time zone"):
        moment("2026-11-21T13:00:00")


def test_a_decider_s_positions_go_back_and_its_states_stay() -> None:
    ledger = ledger_for(AnyState, AnyState())
    known = b'{"applied":{"c":7,"l":3},"state":{"released_vacuums":{"v1":1763726400000}}}'
    other = b'{"applied":{"l":2},"state":{"x":[1]}}'
    ledger.restore(
        [
            (b"lake.sales.orders", known),
            (b"lake.sales.other", other),
            (b"\x00positions", b'{"c":9,"l":3}'),
            (b"\x00topic-ids", b'{"c":"old","l":"L"}'),
        ]
    )

    assert put_back(ledger, {"c": 4}, {"c": "new"}) == [
        (
            b"lake.sales.orders",
            b'{"applied":{"c":4,"l":3},"state":{"released_vacuums":{"v1":1763726400000}}}',
        ),
        (b"\x00topic-ids", b'{"c": "new", "l": "L"}'),
        (b"\x00positions", b'{"c": 4, "l": 3}'),
    ]


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
    selection = Selection(**conditions)  # type: ignore[arg-type]
    return [found.record.offset for found in select_events(HISTORY, selection, Wire()).events]


def test_events_are_chosen_by_table_id_place_and_time() -> None:
    assert chosen() == [10, 11, 12]
    assert chosen(table="lake.sales.orders") == [10, 12]
    assert chosen(event_ids=frozenset({commit(3).event_id})) == [12]
    assert chosen(from_offset=11, to_offset=12) == [11]
    assert chosen(partition=1) == []
    late = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
    assert chosen(from_time=late) == [11, 12]
    assert chosen(to_time=late) == [10]


def test_an_event_goes_out_as_it_was_and_says_from_where() -> None:
    [found] = select_events(HISTORY[:1], Selection(), Wire()).events

    sent = found.message()

    original = message(commit(1))
    assert (sent.topic, sent.key, sent.value) == (original.topic, original.key, original.value)
    assert sent.partition == 2
    assert sent.headers == (
        *original.headers,
        ("tidegate-replayed-from", b"tidegate.commits/2/10"),
    )


def test_an_id_goes_out_once_and_what_can_t_be_read_is_left_out() -> None:
    [first] = select_events(HISTORY[:1], Selection(), Wire()).events
    poison = Message("tidegate.commits", b"lake.sales.orders", b"{}")
    replayed = [HISTORY[0], record(first.message(), 13, 3), record(poison, 14, 4)]

    plan = select_events(replayed, Selection(), Wire())

    assert [found.origin for found in plan.events] == ["tidegate.commits/2/10"]
    assert plan.unreadable == 1
