from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.errors import FormatError
from tidegate.hudi.instant import (
    Action,
    Instant,
    InstantState,
    Layout,
    instant_of,
    instant_of_ms,
    moment_of,
    next_instant,
)

T = "20260301100100000"
C = "20260301100130000"

BOTH = {
    f"{T}.commit.requested": Instant(T, Action.COMMIT, InstantState.REQUESTED),
    f"{T}.inflight": Instant(T, Action.COMMIT, InstantState.INFLIGHT),
    f"{T}.deltacommit.requested": Instant(T, Action.DELTA_COMMIT, InstantState.REQUESTED),
    f"{T}.deltacommit.inflight": Instant(T, Action.DELTA_COMMIT, InstantState.INFLIGHT),
    f"{T}.replacecommit.requested": Instant(T, Action.REPLACE_COMMIT, InstantState.REQUESTED),
    f"{T}.replacecommit.inflight": Instant(T, Action.REPLACE_COMMIT, InstantState.INFLIGHT),
    f"{T}.compaction.requested": Instant(T, Action.COMPACTION, InstantState.REQUESTED),
    f"{T}.compaction.inflight": Instant(T, Action.COMPACTION, InstantState.INFLIGHT),
    f"{T}.logcompaction.requested": Instant(T, Action.LOG_COMPACTION, InstantState.REQUESTED),
    f"{T}.logcompaction.inflight": Instant(T, Action.LOG_COMPACTION, InstantState.INFLIGHT),
    f"{T}.clean.requested": Instant(T, Action.CLEAN, InstantState.REQUESTED),
    f"{T}.clean.inflight": Instant(T, Action.CLEAN, InstantState.INFLIGHT),
    f"{T}.savepoint.inflight": Instant(T, Action.SAVEPOINT, InstantState.INFLIGHT),
    f"{T}.rollback.requested": Instant(T, Action.ROLLBACK, InstantState.REQUESTED),
    f"{T}.rollback.inflight": Instant(T, Action.ROLLBACK, InstantState.INFLIGHT),
    f"{T}.restore.requested": Instant(T, Action.RESTORE, InstantState.REQUESTED),
    f"{T}.restore.inflight": Instant(T, Action.RESTORE, InstantState.INFLIGHT),
    f"{T}.indexing.requested": Instant(T, Action.INDEXING, InstantState.REQUESTED),
    f"{T}.indexing.inflight": Instant(T, Action.INDEXING, InstantState.INFLIGHT),
}
COMPLETED = [
    Action.COMMIT,
    Action.DELTA_COMMIT,
    Action.REPLACE_COMMIT,
    Action.CLEAN,
    Action.SAVEPOINT,
    Action.ROLLBACK,
    Action.RESTORE,
    Action.INDEXING,
]
ONE = BOTH | {f"{T}.{a}": Instant(T, a, InstantState.COMPLETED) for a in COMPLETED}
TWO = (
    BOTH
    | {f"{T}_{C}.{a}": Instant(T, a, InstantState.COMPLETED, C) for a in COMPLETED}
    | {
        f"{T}.clustering.requested": Instant(T, Action.CLUSTERING, InstantState.REQUESTED),
        f"{T}.clustering.inflight": Instant(T, Action.CLUSTERING, InstantState.INFLIGHT),
    }
)
EVERY = [(Layout.ONE, n, i) for n, i in ONE.items()] + [(Layout.TWO, n, i) for n, i in TWO.items()]


@pytest.mark.parametrize(("layout", "name", "instant"), EVERY)
def test_a_name_and_its_value_are_each_other_s_inverse(
    layout: Layout, name: str, instant: Instant
) -> None:
    assert Instant.parse(name, layout) == instant
    assert instant.file_name(layout) == name


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (Layout.ONE, "hoodie.properties"),
        (Layout.ONE, f"{T}_{C}.commit"),
        (Layout.ONE, f"{T}.clustering.requested"),
        (Layout.ONE, f".{T}.commit.crc"),
        (Layout.TWO, f"{T}.commit"),
        (Layout.TWO, f"{T}_{C}.commit.requested"),
        (Layout.TWO, f"{T}_{C}.clustering"),
        (Layout.TWO, f"{T}_{C}.compaction"),
        (Layout.TWO, f"{T}.commit.inflight"),
        (Layout.TWO, f"{T}.savepoint.requested"),
        (Layout.TWO, f"{T}.requested"),
        (Layout.TWO, f"{T}.vacuum.requested"),
        (Layout.TWO, "history"),
    ],
)
def test_what_no_hudi_timeline_holds_is_not_a_instant(layout: Layout, name: str) -> None:
    assert Instant.parse(name, layout) is None


@pytest.mark.parametrize(
    ("layout", "instant"),
    [
        (Layout.TWO, Instant(T, Action.CLUSTERING, InstantState.COMPLETED, C)),
        (Layout.ONE, Instant(T, Action.CLUSTERING, InstantState.REQUESTED)),
        (Layout.TWO, Instant(T, Action.COMMIT, InstantState.COMPLETED)),
        (Layout.TWO, Instant(T, Action.SAVEPOINT, InstantState.REQUESTED)),
    ],
)
def test_an_instant_that_no_file_can_say_has_no_name(layout: Layout, instant: Instant) -> None:
    with pytest.raises(FormatError):
        instant.file_name(layout)


def test_an_instant_is_written_in_the_zone_of_the_table() -> None:
    moment = datetime(2026, 3, 1, 23, 30, 1, 2999, tzinfo=UTC)

    assert instant_of(moment, UTC) == "20260301233001002"
    assert instant_of(moment, timezone(timedelta(hours=2))) == "20260302013001002"
    assert instant_of_ms(1772407801002, UTC) == "20260301233001002"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("", "20260301120000000", id="the clock counts on an empty timeline"),
        pytest.param("20260301115959999", "20260301120000000", id="and after an older instant"),
        pytest.param("20260301120000000", "20260301120000001", id="but never twice"),
        pytest.param("20261231235959999", "20270101000000000", id="nor backwards"),
        pytest.param("20260301120000", "20260301120000000", id="seconds alone are older"),
        pytest.param("20260301130000", "20260301130001000", id="seconds alone, ahead"),
    ],
)
def test_a_new_instant_is_the_greatest_of_its_timeline(after: str, expected: str) -> None:
    new = next_instant(datetime(2026, 3, 1, 12, tzinfo=UTC), UTC, after)

    assert new == expected
    assert new > after


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-9))])
def test_an_instant_is_a_moment_and_a_moment_an_instant(zone: timezone) -> None:
    moment = datetime(2026, 3, 1, 23, 30, 1, 2_000, tzinfo=UTC)

    assert moment_of(instant_of(moment, zone), zone) == moment
    assert moment_of(instant_of(moment, zone)[:14], zone) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("strange", "year"), [("00000000000000", 1), ("99999999999999", 9999), ("20261301000000", 2026)]
)
def test_an_instant_that_is_not_a_time_has_the_nearest_moment(strange: str, year: int) -> None:
    assert moment_of(strange, timezone(timedelta(hours=9))).year in {year, year - 1}
