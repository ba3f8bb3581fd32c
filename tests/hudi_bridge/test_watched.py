from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.hudi_tables import HandMade, at, end_of, four_commits
from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, TableType
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import WatchedTable
from tidegate.hudi_reader.table import NoSuchTable
from tidegate.storage import Storage
from tidegate.storage.store import MAX_READ

STORAGE = Storage()


def settings_for(path: Path, **more: object) -> HudiBridgeSettings:
    fields = {"tables": (str(path / "*"),), "catalog": "hudi"} | more
    return HudiBridgeSettings.model_validate(fields)


def watched(table: HandMade, now: list[float] | None = None, **more: object) -> WatchedTable:
    clock = now or [0.0]
    made = WatchedTable(table.location, settings_for(table.path.parent, **more), lambda: clock[-1])
    made.identify(STORAGE)
    return made


def taken(table: WatchedTable, events: list[CommitCompleted]) -> list[str]:
    """Publish what is due; the instants."""
    for event in events:
        table.published.take(event)
    return [event.instant for event in events]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_new_table_begins_with_its_latest_commit(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "sales" / "orders", version)
    watch = watched(table)
    [event] = watch.look(STORAGE)
    assert event.table == "hudi.sales.orders"
    assert (event.instant, event.completion_time) == (at(4), end_of(at(4)))
    assert (event.action, event.table_type) == ("commit", TableType.COPY_ON_WRITE)
    assert (event.files_written, event.location) == (2, table.location)
    assert not event.reconciled
    assert taken(watch, [event]) == [at(4)]
    assert watch.look(STORAGE) == []


def test_or_with_all_that_the_timeline_has(tmp_path: Path) -> None:
    watch = watched(four_commits(tmp_path / "orders", 9), start="earliest")
    assert taken(watch, watch.look(STORAGE)) == [at(1), at(2), at(3), at(4)]


def test_each_further_commit_is_due_once(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    watch = watched(table)
    taken(watch, watch.look(STORAGE))
    table.begin(at(5))
    assert watch.look(STORAGE) == []
    table.commit(at(5), at(4))
    [event] = watch.look(STORAGE)
    assert not event.reconciled
    assert taken(watch, [event]) == [at(5)]
    assert watch.look(STORAGE) == []


def test_a_write_that_began_earlier_and_completed_later_is_due(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.begin(at(2)[:-3] + "500")
    watch = watched(table)
    taken(watch, watch.look(STORAGE))
    table.commit(at(2)[:-3] + "500", at(4), completed=end_of(at(6)))
    assert taken(watch, watch.look(STORAGE)) == [at(2)[:-3] + "500"]


def test_what_a_stopped_bridge_missed_is_due_and_reconciled(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    before = watched(table)
    [first] = before.look(STORAGE)
    table.commit(at(5), at(4))
    table.commit(at(6), at(5))
    after = watched(table)
    after.published.take(first)
    events = after.look(STORAGE)
    assert [(event.instant, event.reconciled) for event in events] == [(at(5), True), (at(6), True)]


def test_a_writer_that_publishes_by_itself_has_its_grace(tmp_path: Path) -> None:
    table, now = four_commits(tmp_path / "orders", 9), [0.0]
    watch = watched(table, now, grace_ms=60_000)
    fields = {"table": "hudi.orders.orders", "location": table.location, "action": "commit"}
    said = {"source": "the-writer", "occurred_at": "2026-01-01T00:00:00Z"}
    for instant in (at(2), at(4)):
        watch.published.take(
            CommitCompleted.model_validate(
                fields | said | {"instant": instant, "completion_time": end_of(instant)}
            )
        )
    assert watch.look(STORAGE) == []
    now.append(59.0)
    assert watch.look(STORAGE) == []
    now.append(61.0)
    [lost] = watch.look(STORAGE)
    assert (lost.instant, lost.reconciled) == (at(3), True)


def test_the_database_is_the_tables_own_or_the_settings_or_the_folders(tmp_path: Path) -> None:
    own = four_commits(tmp_path / "a" / "orders", 9, hoodie__database__name="Sales")
    none = four_commits(tmp_path / "b" / "orders", 9)
    assert watched(own).name == "hudi.sales.orders"
    assert watched(none).name == "hudi.b.orders"
    assert watched(none, database="raw").name == "hudi.raw.orders"


def test_no_table_and_a_broken_one_say_so(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with pytest.raises(NoSuchTable):
        WatchedTable(str(tmp_path / "nothing"), settings).identify(STORAGE)
    odd = HandMade(tmp_path / "odd").create(hoodie__table__name="a.b")
    with pytest.raises(FormatError):
        WatchedTable(odd.location, settings).identify(STORAGE)


def test_a_look_reads_the_commits_that_are_due_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    watch = watched(table)
    taken(watch, watch.look(STORAGE))
    table.commit(at(5), at(4))
    read: list[str] = []
    plain = Storage.read

    def reading(self: Storage, location: str, limit: int = MAX_READ) -> bytes:
        read.append(location.rpartition("/")[2])
        return plain(self, location, limit)

    monkeypatch.setattr(Storage, "read", reading)
    taken(watch, watch.look(STORAGE))
    assert read == ["hoodie.properties", f"{at(5)}_{end_of(at(5))}.commit"]


def test_numbers_that_no_event_takes_do_not_keep_a_commit_from_being_published(
    tmp_path: Path,
) -> None:
    table = four_commits(tmp_path / "orders", 6)
    content = json.loads((table.timeline / f"{at(4)}.commit").read_bytes())
    for stats in content["partitionToWriteStats"].values():
        for stat in stats:
            stat["numWrites"] = -(2**40)
    (table.timeline / f"{at(4)}.commit").write_text(json.dumps(content))

    [event] = watched(table).look(STORAGE)

    assert (event.instant, event.records_written) == (at(4), None)


def test_an_instant_that_no_event_takes_is_passed_over_and_the_others_are_not(
    tmp_path: Path,
) -> None:
    table = four_commits(tmp_path / "orders", 6)
    odd = table.timeline / f"{at(4)}123.commit"  # Hudi's own are of 14 or 17 digits
    odd.write_bytes((table.timeline / f"{at(4)}.commit").read_bytes())

    found = watched(table, start="earliest").look(STORAGE)

    assert [event.instant for event in found] == [at(1), at(2), at(3), at(4)]


def test_what_a_writer_adds_to_a_commit_does_not_outgrow_a_message(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 6)
    content = json.loads((table.timeline / f"{at(4)}.commit").read_bytes())
    content["extraMetadata"] = {f"key {n:04}": "x" * 1_000 for n in range(3_000)}
    (table.timeline / f"{at(4)}.commit").write_text(json.dumps(content))

    [event] = watched(table).look(STORAGE)

    assert 50 < len(event.extra_metadata) < 200


def test_a_table_whose_timeline_outgrows_the_memory_is_not_published_over_and_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi archives nothing after the first savepoint: a timeline may have any length."""
    monkeypatch.setattr("tidegate.hudi_bridge.watched._REMEMBERED", 2)
    table = four_commits(tmp_path / "orders", 9)
    watch = watched(table, start="earliest")
    assert taken(watch, watch.look(STORAGE)) == [at(1), at(2), at(3), at(4)]

    assert watch.look(STORAGE) == []
    table.commit(at(5), at(4))
    found = watch.look(STORAGE)
    assert taken(watch, found) == [at(5)]
    watch.published.take(found[0].model_copy(update={"instant": at(1), "completion_time": at(1)}))
    assert watch.look(STORAGE) == []
    assert len(watch.published.instants) <= 4


def claimed(table: HandMade, instant: str, completion: str | None = None) -> CommitCompleted:
    """What another publisher says about a commit."""
    fields = {"table": "hudi.orders.orders", "location": table.location, "action": "commit"}
    origin = {"source": "the-writer", "occurred_at": "2026-01-01T00:00:00Z"}
    times = {"instant": instant, "completion_time": completion or end_of(instant)}
    return CommitCompleted.model_validate(fields | origin | times)


@pytest.mark.parametrize("instant", [at(4), "99990101000000000"])
def test_an_event_with_a_time_far_ahead_silences_no_table(tmp_path: Path, instant: str) -> None:
    table = four_commits(tmp_path / "orders", 9)
    watch = watched(table, grace_ms=0)
    watch.published.take(claimed(table, instant, "99990101000000000"))
    taken(watch, watch.look(STORAGE))

    table.commit(at(5), at(4))

    assert taken(watch, watch.look(STORAGE)) == [at(5)]
    again = watched(table, grace_ms=0)
    again.published = watch.published
    table.commit(at(6), at(5))
    assert taken(again, again.look(STORAGE)) == [at(6)]


def test_a_copy_without_file_times_publishes_nothing_old_and_the_rest_in_order(
    tmp_path: Path,
) -> None:
    """In version 6 a file's time is the completion time: a copy has them anew, in any order."""
    table = four_commits(tmp_path / "orders", 6)
    watch = watched(table)
    watch.published.take(watch.look(STORAGE)[0])
    table.commit(at(5), at(4))
    table.commit(at(6), at(5))
    for hour, file in enumerate(sorted(table.timeline.glob("*.commit"), reverse=True)):
        os.utime(file, (4_000_000_000 + hour,) * 2)

    copied = watched(table)
    copied.published = watch.published

    assert taken(copied, copied.look(STORAGE)) == [at(5), at(6)]
    assert copied.look(STORAGE) == []


def test_in_version_6_too_a_write_that_began_earlier_and_completed_later_is_due(
    tmp_path: Path,
) -> None:
    table, early = four_commits(tmp_path / "orders", 6), at(2)[:-3] + "500"
    table.begin(early)
    watch = watched(table)
    taken(watch, watch.look(STORAGE))
    assert watch.look(STORAGE) == []

    table.commit(early, at(4), completed=end_of(at(6)))

    assert taken(watch, watch.look(STORAGE)) == [early]
