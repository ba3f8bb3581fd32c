"""Who waits for a transaction sees whether it has locked other tables only."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.cli.look.waiting import show_vacuums
from tidegate.events import OutstandingReader
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import Lock
from tidegate.ops.waiting import PendingVacuum

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WATCHED = BridgeSettings(uri="thrift://127.0.0.1:1", timeout_ms=500)
LOCKS = (
    Lock(1, "sales", "customers", transaction_id=7),
    Lock(2, "sales", "orders", transaction_id=8),
    Lock(3, "sales", None, transaction_id=9),
)


def shown(capsys: pytest.CaptureFixture[str], watched: BridgeSettings | None) -> list[str]:
    outstanding = tuple(
        OutstandingReader(transaction_id=transaction) for transaction in (7, 8, 9, 10)
    )
    vacuum = PendingVacuum(
        "hive.sales.orders", "/wh/orders", None, "v", NOON, "minor", ("delta_1_3",), 4, outstanding
    )
    show_vacuums([vacuum], NOON, watched=watched)
    return [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetastoreClient, "locks", lambda _: LOCKS)


@pytest.mark.usefixtures("locked")
def test_it_names_the_transactions_that_a_setting_would_not_wait_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, *others = shown(capsys, WATCHED)

    assert first.startswith("waits for transaction 7: it has locked other tables only. If its")
    assert "readers_lock_at_once in [bridge.metastore] lets the vacuum go" in first
    assert others == [f"waits for transaction {number}" for number in (8, 9, 10)]


@pytest.mark.usefixtures("locked")
@pytest.mark.parametrize(
    "watched",
    [
        pytest.param(None, id="no Metastore is configured"),
        pytest.param(
            WATCHED.model_copy(update={"readers_lock_at_once": True}), id="they are not waited for"
        ),
        pytest.param(WATCHED.model_copy(update={"catalog": "other"}), id="of another Metastore"),
    ],
)
def test_else_it_names_none(
    capsys: pytest.CaptureFixture[str], watched: BridgeSettings | None
) -> None:
    assert shown(capsys, watched)[0] == "waits for transaction 7"


def test_a_metastore_that_is_away_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    *holds, last = shown(capsys, WATCHED)

    assert holds[0] == "waits for transaction 7"
    assert last.startswith("the locks of these transactions are unknown: the Metastore did")
