"""The Hudi bridge's loop without a broker: one table's fault is not the others'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.hudi_tables import four_commits
from support.waiting import wait_for
from tidegate.bridges import hudi
from tidegate.bridges.hudi import HudiBridgeLoop
from tidegate.events import CommitCompleted, Event
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.runtime.bus import Partition
from tidegate.storage import FileInfo, Storage

PREFIX = "tidegate"


class _OnePartition:
    def __init__(self, *_: object) -> None:
        """Of any brokers."""

    def partitions(self, _: str) -> int:
        return 1


class _Silent:
    """A bus, its subscription and a reader of nothing."""

    def subscribe(self, *_: object) -> _Silent:
        return self

    def poll(self, *_: object) -> list[object]:
        return []

    def read(self) -> Iterator[list[Event]]:
        return iter(())

    def commit(self, *_: object) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        """Nothing to close."""


class _Faulty(Storage):
    fault: Exception

    def list(self, location: str) -> list[FileInfo]:
        if "/odd/" in location:
            raise self.fault
        return super().list(location)


@pytest.mark.parametrize("fault", [RuntimeError("of a library"), ValueError("not a time")])
def test_a_fault_that_nobody_foresaw_stops_its_own_table_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(hudi, "KafkaMetadata", _OnePartition)
    four_commits(tmp_path / "odd", 6)
    sound = four_commits(tmp_path / "sound", 6)
    published: list[Event] = []
    monkeypatch.setattr(_Faulty, "fault", fault, raising=False)

    def publish(events: Sequence[Event]) -> None:
        published.extend(events)

    silent: object = _Silent()
    settings = HudiBridgeSettings(tables=(f"{tmp_path}/*",), catalog="hudi", interval_ms=50)
    loop = HudiBridgeLoop(
        silent,  # type: ignore[arg-type]
        PREFIX,
        settings=settings,
        storage=_Faulty(),
        publish=publish,
        make_reader=lambda *_: silent,  # type: ignore[arg-type]
        connection={},
    )
    loop.assigned({Partition(f"{PREFIX}.commits", 0): 0})

    def step() -> list[str]:
        loop._step()
        return [e.location for e in published if isinstance(e, CommitCompleted)]

    try:
        assert wait_for("a commit", step, 30) == [sound.location]
    finally:
        loop.close()
