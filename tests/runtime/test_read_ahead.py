"""How far a reader fetches ahead: little memory, and no pause when that little is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka import records


class ConnectedError(Exception):
    """The client was made; no broker is needed to see with what."""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the client was made with."""
    seen: dict[str, Any] = {}

    def connect(given: dict[str, Any]) -> None:
        seen.update(given)
        raise ConnectedError

    monkeypatch.setattr(records, "Consumer", connect)
    return seen


def read_a_changelog() -> None:
    records.PartitionReader({}, {Partition("state", 0): 0})


def read_spans() -> None:
    list(records.read_spans({}, {Partition("locks", 0): range(1)}))


def read_merged() -> None:
    list(records.read_in_order({}, {Partition("locks", 0): range(1)}))


@pytest.mark.parametrize("read", [read_a_changelog, read_spans, read_merged])
def test_a_full_queue_holds_little_and_stops_the_fetching_for_milliseconds(
    settings: dict[str, Any], read: Callable[[], None]
) -> None:
    with pytest.raises(ConnectedError):
        read()

    # librdkafka's defaults, 64 MiB and a second: the second was two thirds of a reading's time
    assert settings["queued.max.messages.kbytes"] <= 16_384
    assert settings["fetch.queue.backoff.ms"] <= 20
