"""The Hudi bridge's loop without a broker: one table's fault is not the others'."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from support.hudi_tables import at, four_commits
from support.waiting import wait_for
from tidegate.bridges import hudi
from tidegate.bridges.hudi import HudiBridgeLoop
from tidegate.bridges.position import HUDI_BRIDGE, last_poll
from tidegate.errors import TransientError
from tidegate.events import CommitCompleted, Event
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.runtime.bus import Partition
from tidegate.storage import FileInfo, Storage

PREFIX = "tidegate"


class _Silent:
    """A bus of one partition, its subscription and a reader of nothing."""

    def partitions(self, _: str) -> int:
        return 1

    def subscribe(self, *_: object) -> _Silent:
        return self

    def poll(self, *_: object) -> list[object]:
        return []

    def read(self) -> Iterator[list[Event]]:
        return iter(())

    def committed_metadata(self, _: object) -> str:
        return ""

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


class Bridge:
    """A loop that owns all tables below a folder, and what it published."""

    def __init__(self, folder: Path, storage: Storage) -> None:
        self.events: list[Event] = []
        silent: object = _Silent()
        settings = HudiBridgeSettings(
            tables=(f"{folder}/*",), catalog="hudi", interval_ms=50, find_ms=50
        )
        self.loop = HudiBridgeLoop(
            silent,  # type: ignore[arg-type]
            PREFIX,
            settings=settings,
            storage=storage,
            publish=self.events.extend,
            make_reader=lambda *_: silent,  # type: ignore[arg-type]
        )
        self.loop.assigned({Partition(f"{PREFIX}.commits", 0): 0})

    def published(self) -> list[tuple[str, str]]:
        """Go round once; the tables and locations of all commits so far."""
        self.loop._step()
        return [(e.table, e.location) for e in self.events if isinstance(e, CommitCompleted)]


@pytest.fixture
def bridged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridge]:
    monkeypatch.setattr(hudi, "_AGAIN", 0.05)
    made = Bridge(tmp_path, _Faulty())
    yield made
    made.loop.close()


def test_nothing_is_published_before_the_published_commits_were_read_to_the_end(
    bridged: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> Iterator[list[Event]]:
        raise TransientError("the broker is away")

    monkeypatch.setattr(_Silent, "read", away)
    for _ in range(3):
        with pytest.raises(TransientError):
            bridged.loop._step()


@pytest.mark.parametrize("fault", [RuntimeError("of a library"), ValueError("not a time")])
def test_an_unforeseen_fault_stops_its_own_table_only(
    tmp_path: Path, bridged: Bridge, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(_Faulty, "fault", fault, raising=False)
    four_commits(tmp_path / "odd", 6)
    sound = four_commits(tmp_path / "sound", 6)

    (found,) = wait_for("a commit", bridged.published)

    assert found[1] == sound.location


def test_a_table_whose_name_another_had_is_watched_once_that_is_gone(
    tmp_path: Path, bridged: Bridge
) -> None:
    first = four_commits(tmp_path / "a", 9, hoodie__table__name="orders")
    wait_for("a commit", bridged.published)
    second = four_commits(tmp_path / "b", 9, hoodie__table__name="orders")
    second.commit(at(5), at(4))
    shutil.rmtree(first.path)

    found = wait_for("two commits", lambda: ([*bridged.published(), None])[1])

    assert found is not None
    assert found[1] == second.location
    assert list(bridged.loop._watches) == [second.location]


def test_a_table_that_was_replaced_by_one_of_another_name_is_that_table(
    tmp_path: Path, bridged: Bridge
) -> None:
    table = four_commits(tmp_path / "a", 9, hoodie__table__name="orders")
    wait_for("a commit", bridged.published)
    properties = table.path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("=orders", "=sales"))

    found = wait_for("two commits", lambda: ([*bridged.published(), None])[1])

    assert found is not None
    assert found[0].endswith(".sales")


def test_the_time_of_the_last_poll_is_committed_and_not_renewed_while_nothing_can_be_read(
    tmp_path: Path, bridged: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed() -> datetime | None:
        """As `status` and `doctor` read it."""
        metadata = bridged.loop._metadata()
        return last_poll(
            HUDI_BRIDGE,
            PREFIX,
            {p: TopicPartition(*p, 0, metadata=f"id|{text}") for p, text in metadata.items()},
        )

    assert committed() is None
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    four_commits(tmp_path / "a", 9)
    wait_for("a commit", bridged.published)
    polled = datetime.fromtimestamp(960, UTC)
    assert committed() == polled

    def refuse(_: object, location: str) -> list[FileInfo]:
        tried.append(location)
        raise OSError("the store is away")

    tried = list[str]()
    monkeypatch.setattr(_Faulty, "list", refuse)
    bridged.loop._forget()
    monkeypatch.setattr(time, "time", lambda: 2_000.0)
    wait_for("two attempts", lambda: bridged.published() and len(tried) > 1)
    assert committed() == polled
