"""Hive's own properties and settings that keep a table from being cleaned."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidegate.events import VacuumKind
from tidegate.hive_bridge.describing import NotYet, check_wanted
from tidegate.hive_metastore.values import QueueEntry, Table

COMMITTED = 1_000_000
DELAYED = "hive.compactor.delayed.cleanup.enabled"
RETENTION = "hive.compactor.cleaner.retention.time.seconds"


def check(
    properties: Mapping[str, str],
    *,
    partition: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = {},
    after_ms: int = 0,
    committed: int = COMMITTED,
) -> None:
    compaction = QueueEntry(
        1, "sales", "orders", None, VacuumKind.MINOR, "", 3, committed_ms=committed
    )
    table = Table("sales", "orders", "/wh/orders", properties)
    part = None if partition is None else Table("sales", "orders", "/wh/orders/p=1", partition)
    check_wanted(compaction, table, part, settings.get, COMMITTED + after_ms)


@pytest.mark.parametrize("name", ["NO_CLEANUP", "no_cleanup"])
def test_no_cleanup_on_the_table_or_on_the_partition(name: str) -> None:
    with pytest.raises(NotYet, match="its table has the property NO_CLEANUP"):
        check({name: "TRUE"})
    with pytest.raises(NotYet, match="its partition has"):
        check({}, partition={name: "true"})
    check({name: "false"}, partition={name: "no"})


@pytest.mark.parametrize(
    ("properties", "settings", "milliseconds"),
    [
        ({}, {DELAYED: "true"}, 300_000),
        ({}, {DELAYED: "true", RETENTION: "20"}, 20_000),
        ({RETENTION: "10s"}, {DELAYED: "true", RETENTION: "20s"}, 10_000),
        ({f"compactor.{DELAYED}": "true", f"compactor.{RETENTION}": "1m"}, {}, 60_000),
    ],
)
def test_hives_delayed_cleaning_is_waited_for(
    properties: Mapping[str, str], settings: Mapping[str, str], milliseconds: int
) -> None:
    with pytest.raises(NotYet, match="retention time") as found:
        check(properties, settings=settings, after_ms=milliseconds - 1_000)
    assert found.value.seconds == 1
    check(properties, settings=settings, after_ms=milliseconds)


def test_a_table_may_turn_delayed_cleaning_off_and_an_unknown_commit_is_not_delayed() -> None:
    check({f"compactor.{DELAYED}": "false"}, settings={DELAYED: "true"})
    check({}, settings={DELAYED: "true"}, committed=0)
    check({}, settings={RETENTION: "300s"})


def test_a_retention_time_that_is_not_one_delays_and_is_said() -> None:
    with pytest.raises(NotYet, match="not a duration: 'soon'"):
        check({RETENTION: "soon"}, settings={DELAYED: "true"})
