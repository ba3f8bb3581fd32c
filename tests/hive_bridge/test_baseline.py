"""A Metastore that lost or changed its database releases nothing."""

from __future__ import annotations

import pytest

from support.metastore_model import snapshot
from tidegate.hive_bridge.baseline import Baseline, MetastoreReplacedError


def test_the_first_look_is_the_baseline_and_the_mark_grows() -> None:
    first = Baseline().checked(snapshot(mark=7))
    assert first == Baseline("uuid-1", 7)
    assert first.checked(snapshot(mark=7)).checked(snapshot(mark=9)) == Baseline("uuid-1", 9)


def test_another_database_stops_the_bridge() -> None:
    with pytest.raises(MetastoreReplacedError, match="uuid-2, and had uuid-1"):
        Baseline("uuid-1", 7).checked(snapshot(metastore="uuid-2", mark=9))


def test_an_earlier_state_of_the_database_stops_the_bridge() -> None:
    with pytest.raises(MetastoreReplacedError, match="highest transaction is 6, and was 7"):
        Baseline("uuid-1", 7).checked(snapshot(mark=6))


def test_it_is_read_back_as_it_was_written() -> None:
    assert Baseline.parse(Baseline("uuid-1", 7).dumps()) == Baseline("uuid-1", 7)
    assert Baseline.parse("") == Baseline()
    accepted = Baseline("uuid-1", 7).accepted("ana", "r\u00e9stored " + 300 * "x", "1f2e")
    assert Baseline.parse(accepted.dumps()) == accepted
    assert accepted.accepted_by.startswith("ana: r?stored xxx")
    assert len(accepted.dumps()) <= 400
    assert accepted.checked(snapshot(mark=9)).accepted_by == accepted.accepted_by
    for broken in ("x", "[]", "{}", '{"metastore": "u", "high_water_mark": null}'):
        with pytest.raises(MetastoreReplacedError, match="can't be read"):
            Baseline.parse(broken)
