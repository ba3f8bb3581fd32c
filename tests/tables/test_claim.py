"""A claim on a table: one number and one owner at a location, whatever happens to its workers."""

from __future__ import annotations

import errno
import pickle
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.acid import NOON, TABLE, tree
from support.s3 import BUCKET, s3_server
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.events import CleaningRefused, DirectoriesCleaned, Outcome
from tidegate.storage import join
from tidegate.tables.claim import HIVE, HUDI, AlreadyDone, Claim, NumberTaken, Task
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import FRESH_SECONDS, Overtaken
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

DEPLOYMENT = "cluster-1/tidegate"


def task(number: int, **changes: str) -> Task:
    fields = {"id": f"task-{number}", "table": TABLE, "deployment": DEPLOYMENT} | changes
    return Task(number, fields["id"], fields["table"], fields["deployment"])


def done(number: int, files: int = 1) -> list[Outcome]:
    fields = {"table": TABLE, "location": "/wh/t", "occurred_at": NOON, "source": "cleaner"}
    more = {"caused_by": f"task-{number}", "directories": (), "files": files, "bytes": 0}
    return [DirectoriesCleaned.model_validate(fields | more | {"duration_ms": 1})]


def take(warehouse: Warehouse, location: str, number: int, **changes: str) -> Claim:
    return Claim.take(warehouse, location, HIVE, task(number, **changes))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "wh/t").mkdir(parents=True)
    return tmp_path / "wh/t"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(WarehouseRoots.of(str(tmp_path / "wh")))


def test_a_stalled_worker_does_nothing_once_a_later_task_is_on_the_table(
    table: Path, warehouse: Warehouse
) -> None:
    stalled = take(warehouse, str(table), 1)
    take(warehouse, str(table), 2)
    with pytest.raises(Overtaken):
        stalled.check()
    with pytest.raises(Overtaken):
        stalled.planned("20260301")
    with pytest.raises(Overtaken):
        stalled.finish(done(1))
    with pytest.raises(Overtaken):  # a copy or a replay of its task
        take(warehouse, str(table), 1)


def test_a_repeated_task_publishes_its_outcome_again_and_does_nothing(
    table: Path, warehouse: Warehouse
) -> None:
    assert take(warehouse, str(table), 7).finish(done(7, files=3)) == done(7, files=3)
    with pytest.raises(AlreadyDone) as again:
        take(warehouse, str(table), 7)
    assert again.value.outcomes == done(7, files=3)


def test_of_two_workers_with_one_task_the_first_outcome_counts(
    table: Path, warehouse: Warehouse
) -> None:
    one, other = take(warehouse, str(table), 1), take(warehouse, str(table), 1)
    one.check()
    other.check()
    assert one.finish(done(1, files=3)) == done(1, files=3)
    with pytest.raises(AlreadyDone):
        other.check()
    assert other.finish(done(1, files=0)) == done(1, files=3)


def test_a_number_that_another_task_has_is_recognised(table: Path, warehouse: Warehouse) -> None:
    take(warehouse, str(table), 4)
    with pytest.raises(NumberTaken) as taken:
        take(warehouse, str(table), 4, id="another")
    assert taken.value.number == 4


@pytest.mark.parametrize("other", [{"table": "hive.sales.other"}, {"deployment": "c-2/tidegate"}])
def test_the_first_name_has_the_location_and_another_is_refused_by_name(
    table: Path, warehouse: Warehouse, other: dict[str, str]
) -> None:
    first = take(warehouse, str(table), 1)
    with pytest.raises(Refused) as refused:
        take(warehouse, str(table), 9, **other)
    assert refused.value.reason == "location-of-another-table"
    assert f"the location belongs to {TABLE}" in refused.value.message
    assert all(name in refused.value.message for name in other.values())
    first.check()  # nothing of the other one is on the table


def test_what_one_task_decided_its_repeat_decides_too(table: Path, warehouse: Warehouse) -> None:
    assert take(warehouse, str(table), 1).planned("20260301") == "20260301"
    assert take(warehouse, str(table), 1).planned("20260302") == "20260301"
    assert take(warehouse, str(table), 2).planned("20260302") == "20260302"


def test_a_later_task_knows_the_earlier_ones_and_leaves_its_own_claim_alone(
    table: Path, warehouse: Warehouse
) -> None:
    take(warehouse, str(table), 1).finish(done(1))
    take(warehouse, str(table), 2)
    stop = take(warehouse, str(table), 3)
    assert stop.earlier == {1: True, 2: False}
    assert take(warehouse, str(table), 3).earlier == {
        1: True,
        2: False,
    }  # its worker died: another one asks
    stop.finish(done(3))
    found = warehouse.list(join(str(table), HIVE, "tasks"))
    assert [file.name for file in found] == ["3", "3.done"]


def test_on_s3_a_claim_is_as_exclusive() -> None:
    with s3_server() as server:
        server.put("wh/t/delta_0000001_0000001_0000/bucket_00000")
        warehouse, table = server.warehouse(), f"s3://{BUCKET}/wh/t"
        one, other = take(warehouse, table, 1), take(warehouse, table, 1)
        assert one.finish(done(1, files=3)) == done(1, files=3)
        assert other.finish(done(1, files=0)) == done(1, files=3)
        take(warehouse, f"s3a://{BUCKET}/wh/t", 2)
        with pytest.raises(Overtaken):
            one.check()
        with pytest.raises(Refused, match="location-of-another-table"):
            take(warehouse, table, 3, table="hive.sales.other")


def test_a_table_through_two_spellings_and_two_roots_is_one_location(
    table: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "wh")
    roots = WarehouseRoots.of(str(tmp_path / "wh"), str(tmp_path / "link"))
    take(Warehouse(roots), str(table), 1)
    for name in (f"file://{table}", f"{table}/", str(tmp_path / "link/t")):
        with pytest.raises(Refused, match="location-of-another-table"):
            take(Warehouse(roots), name, 2, table="hive.sales.other")


def test_a_copied_table_is_refused_until_its_owner_is_removed(
    table: Path, warehouse: Warehouse
) -> None:
    take(warehouse, str(table), 5).finish(done(5))
    copy = table.with_name("copy")
    shutil.copytree(table, copy)
    with pytest.raises(Refused) as refused:
        take(warehouse, str(copy), 1, table="hive.default.copy")
    assert refused.value.message == (
        f"the location belongs to {TABLE}, not to hive.default.copy: see {copy}/{HIVE}/owner"
    )
    shutil.rmtree(copy / HIVE)
    take(warehouse, str(copy), 1, table="hive.default.copy").check()


def test_where_the_table_is_not_no_folder_is_made(table: Path, warehouse: Warehouse) -> None:
    for folder in (HIVE, HUDI):
        with pytest.raises(Refused, match="no-such-table"):
            Claim.take(warehouse, f"{table}2", folder, task(1))
    assert not table.with_name("t2").exists()


def test_a_table_is_waited_for_while_its_root_is_gone(table: Path, warehouse: Warehouse) -> None:
    root = table.parent
    root.rename(root.with_name("unmounted"))
    for location in (str(table), f"file://{table}"):
        with pytest.raises(TransientError, match=f"the warehouse root {root} is gone: mount it"):
            take(warehouse, location, 1)
    root.with_name("unmounted").rename(root)
    take(warehouse, str(table), 1).check()


def test_a_table_that_is_dropped_meanwhile_is_not_made_again(
    table: Path, warehouse: Warehouse
) -> None:
    claim = take(warehouse, str(table), 1)
    shutil.rmtree(table)
    for step in (claim.check, lambda: claim.planned("x"), lambda: claim.finish(done(1))):
        with pytest.raises(TransientError, match="is gone"):
            step()
    assert not table.exists()


def life(warehouse: Warehouse, table: Path) -> list[Outcome]:
    """All that a worker does with task 2, after task 1."""
    claim = take(warehouse, str(table), 2)
    claim.planned("20260301")
    return list(claim.finish(done(2)))


def test_a_crash_between_any_two_steps_leaves_the_task_to_the_next_worker(
    table: Path, warehouse: Warehouse, tmp_path: Path
) -> None:
    def steps(at: int) -> int:
        shutil.rmtree(table / HIVE, ignore_errors=True)
        take(warehouse, str(table), 1).finish(done(1))
        dying = Stepwise(tmp_path / "wh", killed_at(at))
        with suppress(Killed):
            life(dying, table)
        try:
            outcomes = life(warehouse, table)
        except AlreadyDone as again:
            outcomes = list(again.outcomes)
        assert outcomes == done(2)
        with pytest.raises(AlreadyDone):
            take(warehouse, str(table), 2)
        with pytest.raises(Overtaken):
            take(warehouse, str(table), 1)
        return dying.steps

    assert [steps(at) for at in range(1, 7)] == [1, 2, 3, 4, 5, 5]


def test_a_full_disk_ends_the_attempt_and_the_next_one_goes_on(
    table: Path, warehouse: Warehouse, tmp_path: Path
) -> None:
    for at in range(1, 5):
        shutil.rmtree(table / HIVE, ignore_errors=True)

        def full(number: int, at: int = at) -> None:
            if number >= at:
                raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(OSError, match="No space"):
            life(Stepwise(tmp_path / "wh", full), table)
        assert life(warehouse, table) == done(2)


@pytest.mark.parametrize("name", ["", "/owner", "/tasks", "/tasks/1"])
def test_a_link_in_place_of_the_folder_or_a_file_is_never_followed(
    table: Path, warehouse: Warehouse, name: str
) -> None:
    victim = table.with_name("victim")
    victim.mkdir()
    take(warehouse, str(victim), 1).finish(done(1))
    claim = take(warehouse, str(table), 1)
    before = tree(victim)
    mine = Path(f"{table / HIVE}{name}")
    mine.rename(table / "aside")
    mine.symlink_to(f"{victim / HIVE}{name}")
    if name != "/owner":  # the owner was read when the claim was taken
        with pytest.raises((TransientError, FormatError, ConfinementError)):
            claim.finish(done(1))
    with pytest.raises(Refused) as refused:
        take(warehouse, str(table), 1)
    assert refused.value.reason in {"link-inside", "unreadable-table"}
    assert tree(victim) == before


@pytest.mark.parametrize("name", ["0", "-1", "07", "1.tmp", "9" * 20, ".2.done", "2.DONE", "2\n"])
def test_a_file_of_another_name_is_not_a_claim(
    table: Path, warehouse: Warehouse, name: str
) -> None:
    claim = take(warehouse, str(table), 1)
    (table / HIVE / "tasks" / name).write_text("x")
    claim.check()


def test_the_folder_of_a_stranger_is_refused_and_its_size_is_bounded(
    table: Path, warehouse: Warehouse
) -> None:
    for name, content in {
        "owner": b"x" * 70_000,
        "tasks/1": b"\xff",
        "tasks/1.done": b'[{"kind": "RestoreRequested", "outcome": {}}]',
    }.items():
        shutil.rmtree(table / HIVE, ignore_errors=True)
        take(warehouse, str(table), 1)
        (table / HIVE / name).write_bytes(content)
        with pytest.raises(Refused, match="unreadable-table"):
            take(warehouse, str(table), 1)


@pytest.mark.parametrize("number", [2**62, 2**63 - 1, 10**19 - 1])
def test_a_number_that_no_task_can_have_is_refused_by_its_name(
    table: Path, warehouse: Warehouse, number: int
) -> None:
    (table / HIVE / "tasks").mkdir(parents=True)
    (table / HIVE / "tasks" / str(number)).write_text("x")
    with pytest.raises(Refused, match=f"{number} has a number"):
        take(warehouse, str(table), 1)


@pytest.mark.parametrize(
    "owner", ['{"deployment": "other", "table": 7}', '{"deployment": [], "table": null}']
)
def test_an_owner_that_a_stranger_wrote_is_refused(
    table: Path, warehouse: Warehouse, owner: str
) -> None:
    (table / HIVE).mkdir()
    (table / HIVE / "owner").write_text(owner)
    with pytest.raises(Refused, match="owner"):
        take(warehouse, str(table), 1)


def test_within_one_step_a_check_counts_for_seconds(
    table: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = take(warehouse, str(table), 1)
    take(warehouse, str(table), 2)
    claim.check_if_old()
    later = time.clock_gettime(time.CLOCK_BOOTTIME) + FRESH_SECONDS + 1
    monkeypatch.setattr(time, "clock_gettime", lambda _: later)
    with pytest.raises(Overtaken):
        claim.check_if_old()


def test_a_claim_can_be_checked_in_another_process(table: Path, warehouse: Warehouse) -> None:
    claim = pickle.loads(pickle.dumps(take(warehouse, str(table), 1)))  # noqa: S301 - its own
    claim.check()
    take(warehouse, str(table), 2)
    with pytest.raises(Overtaken):
        claim.check()


def test_all_outcomes_of_a_task_are_recorded(table: Path, warehouse: Warehouse) -> None:
    fields = {"table": TABLE, "location": "/wh/t", "occurred_at": NOON, "source": "cleaner"}
    more = {"caused_by": "task-1", "reason": "table-held", "message": "held"}
    both = [*done(1), CleaningRefused.model_validate(fields | more)]
    assert take(warehouse, str(table), 1).finish(both) == both
    with pytest.raises(AlreadyDone) as again:
        take(warehouse, str(table), 1)
    assert again.value.outcomes == both
