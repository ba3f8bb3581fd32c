"""The look for aborted writes is beside the bridge's main work, and never in its way."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from support.bridge_threads import wait_for_threads
from tidegate.errors import MetastoreRefusedError
from tidegate.hive_bridge import aborted_sweep
from tidegate.hive_bridge.aborted_sweep import AbortedSweep
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.storage import Storage

if TYPE_CHECKING:
    import pytest


class Refusing(MetastoreClient):
    """A Metastore whose authorization lets this user not list all databases."""

    def transactions(self) -> None:  # type: ignore[override]
        raise MetastoreRefusedError("the Metastore refuses get_all_tables: no privilege")


def test_a_refusal_is_said_once_and_does_not_end_the_bridge(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(aborted_sweep, "MetastoreClient", Refusing)
    seconds = count()
    settings = BridgeSettings(uri="thrift://127.0.0.1:1", aborted_interval_ms=1)
    sweep = AbortedSweep(settings, Storage(), lambda: next(seconds))

    for _ in range(3):
        assert sweep.look(frozenset({1})) == []
        wait_for_threads(sweep)

    assert sweep.look(frozenset()) == []
    assert [message for message in caplog.messages if "no privilege" in message] == [
        "aborted writes of any table stay: the Metastore refuses get_all_tables: no privilege"
    ]
    sweep.close()
