"""A writer that does not know its instant: what its timeline has is published."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from support.hudi_tables import HandMade, at, end_of, four_commits
from support.memory_bus import MemoryBus
from support.samples import events_on, memory_bus
from tidegate.errors import DeliveryError, InvalidEventError
from tidegate.events import CommitCompleted
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi_reader.table import NoSuchTable
from tidegate.publisher import Message, Publisher, Receipt
from tidegate.publisher.timelines import completed_commit

NAME = "lake.sales.orders"


class Sent:
    """A producer that stores on a memory bus, or fails."""

    def __init__(self, bus: MemoryBus, fault: DeliveryError | None = None) -> None:
        self.bus, self.fault = bus, fault

    def send(self, messages: list[Message]) -> list[Receipt]:
        if self.fault:
            raise self.fault
        self.bus.send(messages)
        return [Receipt(message.topic, 0, 0) for message in messages]

    def close(self) -> None:
        pass


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


@pytest.fixture
def publisher(bus: MemoryBus) -> Publisher:
    publisher = Publisher("127.0.0.1:9", source="orders-ingest")
    vars(publisher)["_producer"] = Sent(bus)
    return publisher


def published(bus: MemoryBus) -> list[str]:
    found = events_on(bus, "tidegate.commits")
    assert all(isinstance(event, CommitCompleted) for event in found)
    return [event.instant for event in found if isinstance(event, CommitCompleted)]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_commit_that_completed_last_is_published_as_the_timeline_has_it(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    slow = at(3)[:-3] + "500"  # requested before the newest, completed after it
    table.commit(slow, at(4), completed=end_of(at(9)))

    receipt = publisher.commit_latest(table="Lake.Sales.Orders", location=Path(table.location))

    [event] = events_on(bus, "tidegate.commits")
    assert isinstance(event, CommitCompleted)
    assert receipt.event_id == event.event_id
    assert (event.table, event.location, event.instant) == (NAME, table.location, slow)
    assert (event.completion_time, event.action) == (end_of(at(9)), "commit")
    assert (event.files_written, event.source, event.reconciled) == (2, "orders-ingest", False)


def test_every_commit_that_completes_in_the_block_is_published_in_its_order(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.begin(at(5))

    with publisher.hudi_commits(table=NAME, location=f"file://{table.location}") as commits:
        assert commits == []
        table.commit(at(6), at(4))
        table.commit(at(5), at(4), completed=end_of(at(7)))
        table.begin(at(8))

    assert published(bus) == [at(6), at(5)] == [commit.instant for commit in commits]


def test_the_block_may_create_the_table(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path
) -> None:
    location = tmp_path / "orders"

    with publisher.hudi_commits(table=NAME, location=str(location)):
        HandMade(location).create().commit(at(1))

    assert published(bus) == [at(1)]


def test_a_commit_is_published_although_the_job_fails_after_it(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)

    seen = list[CommitCompleted]()

    def job() -> None:
        nonlocal seen
        with publisher.hudi_commits(table=NAME, location=Path(table.location)) as seen:
            table.commit(at(5), at(4))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job()
    assert published(bus) == [at(5)] == [commit.instant for commit in seen]


def test_the_error_of_the_job_is_raised_and_that_of_its_commits_logged(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    vars(publisher)["_producer"] = Sent(bus, DeliveryError("the broker is away"))

    def job() -> None:
        with publisher.hudi_commits(table=NAME, location=table.location):
            table.commit(at(5), at(4))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job()
    assert caplog.messages == [f"the commits of {NAME} are not published: the broker is away"]


def test_a_block_without_a_commit_is_reported(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = four_commits(tmp_path / "orders", 9)

    with publisher.hudi_commits(table=NAME, location=table.location) as commits:
        pass

    assert (commits, published(bus)) == ([], [])
    assert "no write" in caplog.text


def test_a_place_without_a_table_or_a_commit_is_an_error(
    publisher: Publisher, tmp_path: Path
) -> None:
    empty = HandMade(tmp_path / "orders").create()
    empty.put(Instant(at(1), Action.COMMIT, InstantState.REQUESTED))

    with pytest.raises(InvalidEventError, match="no write has completed"):
        publisher.commit_latest(table=NAME, location=empty.location)
    with pytest.raises(NoSuchTable, match="there is no Hudi table at"):
        publisher.commit_latest(table=NAME, location=str(tmp_path / "ordres"))
    with (
        pytest.raises(NoSuchTable, match="there is no Hudi table at"),
        publisher.hudi_commits(table=NAME, location=str(tmp_path / "ordres")),
    ):
        pass


def test_a_wrong_name_is_an_error_before_the_job_runs(publisher: Publisher, tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)

    with (
        pytest.raises(InvalidEventError, match=r"^'orders' is not a table name"),
        publisher.hudi_commits(table="orders", location=table.location),
    ):
        pytest.fail("the job ran")
    with pytest.raises(InvalidEventError, match=r"^'orders' is not a table name"):
        publisher.commit_latest(table="orders", location=table.location)


def test_a_relative_location_is_an_error_before_the_job_runs(publisher: Publisher) -> None:
    with (
        pytest.raises(InvalidEventError, match=r"^not an absolute path or URI.*'lake/orders'$"),
        publisher.hudi_commits(table=NAME, location="lake/orders"),
    ):
        pytest.fail("the job ran")


@pytest.mark.parametrize("version", [6, 9])
def test_an_instant_that_is_not_on_the_timeline_is_an_error_that_names_the_newest(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    found = completed_commit(NAME, table.location, at(2), "job")
    assert isinstance(found, CommitCompleted)
    assert found.instant == at(2)
    older = completed_commit(NAME, table.location, "20200101000000000", "job")
    assert older == f"the timeline begins later, with {at(1)}: it is archived, or wrong"

    with pytest.raises(InvalidEventError, match=rf"no write {at(5)} .* newest is {at(4)}$"):
        completed_commit(NAME, table.location, at(5), "job")


def test_a_file_that_cannot_be_read_is_published_without_its_statistics(
    publisher: Publisher, bus: MemoryBus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.put(Instant(at(5), Action.COMMIT, InstantState.COMPLETED, end_of(at(5))), b"{not JSON")
    caplog.set_level(logging.WARNING)

    publisher.commit_latest(table=NAME, location=table.location)

    [event] = events_on(bus, "tidegate.commits")
    assert isinstance(event, CommitCompleted)
    assert (event.instant, event.files_written) == (at(5), None)
    assert "published without its statistics" in caplog.text


def test_the_light_install_reads_a_local_timeline(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    program = f"""
import sys
sys.modules["fsspec"] = sys.modules["pyspark"] = None
from tidegate.publisher.timelines import latest_commit
print(latest_commit({NAME!r}, {table.location!r}, "job").instant)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert (shown.stdout, shown.stderr) == (f"{at(4)}\n", "")
