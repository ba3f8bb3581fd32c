"""Compactions of which the Metastore does not say what they compacted: Hive 3's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from support.acid import COMPACTED, TRUNCATED, build
from support.bridge_threads import wait_for_threads
from support.metastore_model import vacuum
from tidegate.errors import FormatError, MissingCallError
from tidegate.events import VacuumFinished, VacuumKind
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hive_bridge.compactions import Compactions
from tidegate.hive_bridge.describing import NotYet, describe
from tidegate.hive_bridge.marking import Marking
from tidegate.hive_bridge.products import VacuumFields
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import READY_FOR_CLEANING, QueueEntry, Table, Transactions
from tidegate.storage import Storage

FIRST = QueueEntry(7, "sales", "orders", None, VacuumKind.MINOR, READY_FOR_CLEANING, 0)
SECOND = replace(FIRST, compaction_id=9)
INPUTS, MADE = ("delta_0000001_0000001_0000", "delta_0000003_0000003_0000"), "delta_0000001_0000003"


@dataclass
class Queue:
    """The compactions of a bridge, and what was looked up."""

    answers: dict[int, VacuumFields | ValueError] = field(
        default_factory=dict[int, VacuumFields | ValueError]
    )
    asked: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.compactions = Compactions("hive", self._describe, 1)

    def _describe(self, compaction: QueueEntry) -> VacuumFields:
        self.asked.append(compaction.compaction_id)
        answer = self.answers[compaction.compaction_id]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look(self, *queue: QueueEntry) -> list[QueueEntry]:
        """The entries to be published."""

        def due() -> list[QueueEntry]:
            entries = self.compactions.completed(queue)
            return [event for event, _ in self.compactions.described(entries)]

        first = due()
        wait_for_threads(self.compactions)
        return first + due()


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.compactions.close()


def made(highest: int) -> VacuumFields:
    ids = f"sales.orders:{highest}:9223372036854775807::"
    return VacuumFields(
        "/wh/orders", (f"delta_0000001_{highest:07}",), 1, highest, ids, VacuumKind.MINOR
    )


def published(highest: int) -> VacuumFinished:
    found = made(highest)
    return vacuum(
        directories=found.directories,
        max_write_id=highest,
        valid_write_ids=found.valid_write_ids,
        own_transaction_id=None,
    )


def test_the_latest_of_a_kind_is_looked_up_once_and_published_once(queue: Queue) -> None:
    """Entries stay in Hive 3's queue for ever; a later compaction covers an earlier one."""
    queue.answers = {9: made(5)}

    assert queue.look(FIRST, SECOND) == [replace(SECOND, highest_write_id=5)]
    queue.compactions.published(published(5))
    assert queue.look(FIRST, SECOND) == []
    assert queue.look(FIRST, SECOND) == []
    assert queue.asked == [9]


def test_what_is_published_already_is_not_published_again_after_a_restart(queue: Queue) -> None:
    queue.answers = {7: made(3)}
    queue.compactions.published(published(3))
    assert queue.look(FIRST) == []
    assert queue.look(FIRST) == []
    assert queue.asked == [7]


def test_a_refused_one_does_not_stand_in_the_way_of_the_next(queue: Queue) -> None:
    queue.answers = {7: FormatError("nothing that it made is there"), 9: made(5)}
    assert queue.look(FIRST) == []
    assert [entry.compaction_id for entry in queue.look(FIRST, SECOND)] == [9]


def test_one_whose_names_can_not_be_written_ends_nothing_and_the_next_is_published(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(SECOND, table="stock")
    queue.answers = {7: UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates"), 9: made(5)}

    queue.look(FIRST)
    found = queue.look(FIRST, other)

    assert [entry.compaction_id for entry in found] == [9]
    assert len([message for message in caplog.messages if "compaction 7" in message]) == 1


def test_what_was_looked_up_after_the_locks_of_a_look_waits_for_the_next_ones(queue: Queue) -> None:
    """The directory may show a compaction that ended after them: its readers are not among them."""
    queue.answers = {7: made(5)}
    entries = queue.compactions.completed((FIRST,))
    assert list(queue.compactions.described(entries)) == []
    wait_for_threads(queue.compactions)
    assert list(queue.compactions.described(entries)) == []
    assert len(queue.look(FIRST)) >= 1


def test_entries_that_say_what_they_compacted_are_left_as_they_are(queue: Queue) -> None:
    of_hive_4 = replace(FIRST, transaction_id=20, next_transaction_id=20, highest_write_id=3)
    other = replace(of_hive_4, compaction_id=8, transaction_id=21)
    assert queue.compactions.completed((of_hive_4, other)) == (of_hive_4, other)


@dataclass
class Metastore:
    """Has one table; its queue is given look by look."""

    location: Path
    queues: list[tuple[QueueEntry, ...]]
    ids: str = "sales.orders:5:9223372036854775807::"

    def table(self, database: str, name: str) -> Table:
        return Table(database, name, str(self.location), {"transactional": "true"})

    def setting(self, name: str) -> None:
        """It does not say."""

    def transactions(self) -> Transactions:
        return Transactions(10)

    def write_ids(self, *_: object) -> ValidWriteIds:
        return ValidWriteIds.parse(self.ids)

    def compactions(self) -> tuple[QueueEntry, ...]:
        return self.queues.pop(0)

    def describe(self, compaction: QueueEntry = FIRST) -> VacuumFields:
        return describe(compaction, cast("MetastoreClient", self), Storage())


def test_it_is_described_by_its_directory(tmp_path: Path) -> None:
    build(tmp_path, dict.fromkeys((*INPUTS, MADE), 10))
    found = Metastore(tmp_path, [(FIRST,), (FIRST,)]).describe()
    assert found == VacuumFields(
        str(tmp_path), (MADE,), 1, 3, "sales.orders:3:9223372036854775807::", VacuumKind.MINOR
    )


def test_the_base_of_a_truncate_that_aborted_is_not_taken_for_a_compactions(tmp_path: Path) -> None:
    """Then its rows, which are still there, would be removed as if it had replaced them."""
    major = replace(FIRST, kind=VacuumKind.MAJOR)
    build(tmp_path, dict.fromkeys(("base_0000003", "base_0000005"), 10))
    for base, content in (("base_0000003", COMPACTED), ("base_0000005", TRUNCATED)):
        (tmp_path / base / "_metadata_acid").write_bytes(content)

    found = Metastore(tmp_path, [(major,), (major,)]).describe(major)

    assert (found.directories, found.max_write_id) == (("base_0000003",), 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("working", "working", id="it works"),
        pytest.param("initiated", "working", id="it has begun"),
        pytest.param("working", READY_FOR_CLEANING, id="it has ended"),
        pytest.param("initiated", READY_FOR_CLEANING, id="it has begun and ended"),
    ],
)
def test_while_another_one_renames_its_directories_nothing_is_concluded(
    tmp_path: Path, before: str, after: str
) -> None:
    """A delta without its delete delta would be taken for all that it made."""
    build(tmp_path, dict.fromkeys((*INPUTS, MADE), 10))
    queues: list[tuple[QueueEntry, ...]] = [
        (FIRST, replace(SECOND, state=state)) for state in (before, after)
    ]
    with pytest.raises(NotYet, match="is running"):
        Metastore(tmp_path, queues).describe()


def test_a_directory_with_open_write_ids_is_a_writers(tmp_path: Path) -> None:
    build(tmp_path, dict.fromkeys((*INPUTS, MADE), 10))
    metastore = Metastore(tmp_path, [(FIRST,), (FIRST,)], "sales.orders:5:2:2:")
    with pytest.raises(FormatError, match="a writer made it"):
        metastore.describe()


def test_without_the_call_to_mark_it_is_tried_once_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried: list[int] = []

    def settle(compaction: QueueEntry, vacuum: VacuumFields) -> bool:
        del vacuum
        tried.append(compaction.compaction_id)
        raise MissingCallError("the Metastore has no call mark_cleaned")

    marking = Marking("hive", settle, 1)
    wanted = [(replace(FIRST, highest_write_id=3), VacuumFields.of(published(3)))]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert marking.look(wanted) == 0
            wait_for_threads(marking)
    marking.close()

    assert tried == [7]
    assert len([message for message in caplog.messages if "no call to mark" in message]) == 1
