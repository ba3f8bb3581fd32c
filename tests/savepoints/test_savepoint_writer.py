from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    tables_own,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.names import STRANGE, takes_any_bytes
from support.savepoint_and_restore import savepoint_files, write_savepoint
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import PermanentError
from tidegate.events import SavepointCreated, SavepointRejected, SavepointRequested
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

VERSIONS = pytest.mark.parametrize("version", [9, 8, 6])


def refusal(root: Path, command: SavepointRequested) -> str:
    """The reason code; nothing below the root may have changed."""
    before = snapshot(root)
    outcome = write_savepoint(root, command)
    assert isinstance(outcome, SavepointRejected)
    assert snapshot(root) == before
    return outcome.reason


@VERSIONS
def test_a_savepoint_names_the_newest_file_of_each_group_at_its_commit(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    before = snapshot(tmp_path)

    outcome = write_savepoint(tmp_path, savepoint_request(table, at(2)))

    assert isinstance(outcome, SavepointCreated)
    assert (outcome.instant, outcome.partitions, outcome.files) == (at(2), 2, 2)
    assert not outcome.already_there
    assert savepoint_files(table, at(2)) == {
        "p0": ("g0_0-1-2_20260301100200000.parquet",),
        "p1": ("g1_0-1-2_20260301100200000.parquet",),
    }
    new = set(tables_own(tmp_path)) - set(before)
    assert {name.rsplit("/", 1)[1] for name in new} == {
        f"{at(2)}.savepoint.inflight",
        f"{at(2)}.savepoint" if version == 6 else f"{at(2)}_20260301120003000.savepoint",
    }
    assert {n: c for n, c in tables_own(tmp_path).items() if n not in new} == before


def test_who_asked_and_why_is_kept_in_the_savepoint(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 6)

    write_savepoint(tmp_path, savepoint_request(table, at(2)))

    metadata = SavepointMetadata.decode((table.timeline / f"{at(2)}.savepoint").read_bytes())
    assert (metadata.by, metadata.comment) == ("ada", "before the load")
    assert metadata.at_ms == int(NOW.timestamp() * 1000) + 1000


@VERSIONS
def test_any_avro_reader_opens_a_savepoint_s_file(tmp_path: Path, version: int) -> None:
    """Readers such as fastavro decode every value of the file's header as UTF-8."""
    table = four_commits(tmp_path / "orders", version)

    write_savepoint(tmp_path, savepoint_request(table, at(2)))

    (name,) = (n for n in timeline_names(table) if n.endswith(".savepoint"))
    with (table.timeline / name).open("rb") as file:
        (record,) = fastavro.reader(file)
    assert isinstance(record, dict)
    assert record["savepointedBy"] == "ada"


@VERSIONS
@pytest.mark.parametrize("token", ["0-0-1", "9-9-9"])
def test_of_two_base_files_of_one_commit_the_one_that_the_commit_names_is_kept(
    tmp_path: Path, token: str, version: int
) -> None:
    """A task that Spark repeated left the other one behind."""
    table = four_commits(tmp_path / "orders", version)
    (named,) = (table.path / "p0").glob(f"g0_*_{at(2)}.parquet")
    (table.path / "p0" / f"g0_{token}_{at(2)}.parquet").write_text("of a repeated task")

    write_savepoint(tmp_path, savepoint_request(table, at(2)))

    assert savepoint_files(table, at(2))["p0"] == (named.name,)


def test_without_an_instant_the_last_completed_commit_is_meant(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.begin(at(9))

    outcome = write_savepoint(tmp_path, savepoint_request(table, None))

    assert isinstance(outcome, SavepointCreated)
    assert outcome.instant == at(4)


def test_a_log_file_is_kept_whose_archived_delta_commit_was_overtaken_by_a_compaction(
    tmp_path: Path,
) -> None:
    """Only the compaction's plan says that it did not merge it."""
    table = HandMade(tmp_path / "orders", 9).create(hoodie__table__type="MERGE_ON_READ")
    table.delta(at(1), {"p0": "g0"}, None)
    table.delta(at(2), {"p0": "g0"}, at(1))
    table.schedule(at(4), {"p0": "g0"})
    table.delta(at(3), {"p0": "g0"}, at(1))
    table.compact(at(4), {"p0": "g0"}, at(1))
    table.delta(at(5), {"p1": "g1"}, None)
    for archived in (at(1), at(2), at(3)):
        for file in table.timeline.glob(f"{archived}*"):
            file.unlink()

    write_savepoint(tmp_path, savepoint_request(table, at(5)))

    kept = (f".g0_{at(3)}.log.1_0-1-2", f"g0_0-1-2_{at(4)}.parquet")
    assert savepoint_files(table, at(5))["p0"] == kept


def test_replaced_groups_are_left_out_and_empty_partitions_are_kept(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.replace(at(5), {"p0": ["g0"]}, {"p0": "g2"})
    table.commit(at(6), groups={"p9": "g9"})

    write_savepoint(tmp_path, savepoint_request(table, at(4)))
    write_savepoint(tmp_path, savepoint_request(table, at(5)))

    assert savepoint_files(table, at(4))["p0"] == (f"g0_0-1-2_{at(4)}.parquet",)
    assert savepoint_files(table, at(5)) == {
        "p0": (f"g2_0-1-2_{at(5)}.parquet",),
        "p1": (f"g1_0-1-2_{at(4)}.parquet",),
        "p9": (),
    }


def test_files_of_a_failed_write_are_left_out(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.data("20260301100330000", "g0", "p0")

    write_savepoint(tmp_path, savepoint_request(table, at(4)))
    table.data("20260301100430000", "g0", "p0")
    write_savepoint(tmp_path, savepoint_request(table, at(3)))

    assert savepoint_files(table, at(4))["p0"] == (f"g0_0-1-2_{at(4)}.parquet",)
    assert savepoint_files(table, at(3))["p0"] == (f"g0_0-1-2_{at(3)}.parquet",)


def test_a_table_without_partitions_has_one_named_by_nothing(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1), groups={"": "g0"})

    write_savepoint(tmp_path, savepoint_request(table, at(1)))

    assert savepoint_files(table, at(1)) == {"": (f"g0_0-1-2_{at(1)}.parquet",)}


@VERSIONS
def test_a_savepoint_that_is_there_is_the_answer(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "orders", version)
    write_savepoint(tmp_path, savepoint_request(table, at(2)))
    before = tables_own(tmp_path)

    again = write_savepoint(tmp_path, savepoint_request(table, at(2), requested_by="bob"))

    assert isinstance(again, SavepointCreated)
    assert again.already_there
    assert (again.partitions, again.files) == (2, 2)
    assert tables_own(tmp_path) == before


@VERSIONS
def test_an_inflight_savepoint_of_a_dead_process_is_finished(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "orders", version)
    table.put(Instant(at(2), Action.SAVEPOINT, InstantState.INFLIGHT))

    outcome = write_savepoint(tmp_path, savepoint_request(table, at(2)))

    assert isinstance(outcome, SavepointCreated)
    assert not outcome.already_there
    assert savepoint_files(table, at(2))["p0"] == (f"g0_0-1-2_{at(2)}.parquet",)


class Interrupted(Warehouse):
    """Lets something else happen before its n-th file is created."""

    def __init__(self, root: Path, before_file: int, happening: Callable[[], object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.left = before_file
        self.happening = happening

    def create(self, location: str, content: bytes) -> None:
        self.left -= 1
        if self.left == 0:
            self.happening()
        super().create(location, content)


@VERSIONS
@pytest.mark.parametrize("before_file", [1, 2])
def test_two_processes_at_once_end_with_one_savepoint(
    tmp_path: Path, version: int, before_file: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    command = savepoint_request(table, at(2))
    slow = Interrupted(tmp_path, before_file, lambda: write_savepoint(tmp_path, command))

    outcome = write_savepoint(tmp_path, command, slow)

    assert isinstance(outcome, SavepointCreated)
    names = [n for n in timeline_names(table) if "savepoint" in n]
    assert len(names) == 2
    assert savepoint_files(table, at(2))["p1"] == (f"g1_0-1-2_{at(2)}.parquet",)


@pytest.mark.parametrize("wanted", [at(7), at(9), "20200101000000"])
def test_a_commit_that_did_not_complete_gets_no_savepoint(tmp_path: Path, wanted: str) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.begin(at(9))

    assert refusal(tmp_path, savepoint_request(table, wanted)) == "no-such-commit"


def test_a_table_without_commits_gets_no_savepoint(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()

    assert refusal(tmp_path, savepoint_request(table, None)) == "no-such-commit"


@VERSIONS
def test_nothing_below_the_last_clean_gets_a_savepoint(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "orders", version)
    table.clean(at(5), bound=at(3))

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "below-last-clean"
    assert isinstance(write_savepoint(tmp_path, savepoint_request(table, at(3))), SavepointCreated)


def test_a_clean_that_counts_versions_bounds_nothing_so_the_files_are_looked_for(
    tmp_path: Path,
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.clean(at(5), bound="")
    (table.path / f"p0/g0_0-1-2_{at(2)}.parquet").unlink()

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "missing-files"
    assert isinstance(write_savepoint(tmp_path, savepoint_request(table, at(3))), SavepointCreated)


def test_a_file_that_only_a_later_commit_tells_of_is_missed_too(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(2), groups={"p1": "g1"})
    table.commit(at(3), previous="20260228100000000", groups={"p0": "g0"})

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "missing-files"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hoodie__table__type": "MERGE_ON_TUESDAY"}, "unsupported-table"),
        ({"hoodie__table__version": "5"}, "unsupported-table"),
        ({"hoodie__bootstrap__base__path": "/elsewhere"}, "unsupported-table"),
        ({"hoodie__table__name": "invoices"}, "table-mismatch"),
        ({"hoodie__table__version": "nine"}, "unreadable-table"),
    ],
)
def test_a_table_that_we_do_not_know_is_left_alone(
    tmp_path: Path, properties: dict[str, str], reason: str
) -> None:
    table = four_commits(tmp_path / "orders", 9, **properties)

    assert refusal(tmp_path, savepoint_request(table, at(2))) == reason


def test_an_instant_that_we_do_not_know_is_not_passed_over(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    (table.timeline / f"{at(5)}.vacuum.requested").touch()

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "unreadable-table"


def test_a_partition_behind_a_link_is_refused(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    (table.path / "p0").rename(tmp_path / "p0")
    (table.path / "p0").symlink_to(tmp_path / "p0")

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "unreadable-table"


@takes_any_bytes
@pytest.mark.parametrize("act", [Path.mkdir, Path.touch], ids=["a folder", "a file"])
def test_a_name_that_is_not_text_is_refused_and_shown(
    tmp_path: Path, act: Callable[[Path], None]
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    act(table.path / "p0" / STRANGE)

    outcome = write_savepoint(tmp_path, savepoint_request(table, at(2)), warehouse_over(tmp_path))

    assert isinstance(outcome, SavepointRejected)
    assert outcome.reason == "unreadable-table"
    assert "\\udcff" in outcome.message


@takes_any_bytes
def test_a_link_whose_name_is_not_text_is_refused_and_shown(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    (table.path / STRANGE).symlink_to(tmp_path)

    outcome = write_savepoint(tmp_path, savepoint_request(table, at(2)), warehouse_over(tmp_path))

    assert isinstance(outcome, SavepointRejected)
    assert outcome.message.endswith("orders contains links: \\udcff")


@pytest.mark.parametrize("linked", ["orders", "orders/.hoodie", "orders/.hoodie/timeline"])
def test_a_table_under_another_name_is_refused(tmp_path: Path, linked: str) -> None:
    """Else what is said of one table would be done to another."""
    table = four_commits(tmp_path / "orders", 9)
    (tmp_path / linked).rename(tmp_path / "elsewhere")
    (tmp_path / linked).symlink_to(tmp_path / "elsewhere")

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "link-inside"


def test_a_folder_without_a_table_is_refused(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9)

    assert refusal(tmp_path, savepoint_request(table, None)) == "no-such-table"


def test_a_table_outside_the_roots_is_not_even_read(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "elsewhere/orders", 9)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/orders").symlink_to(table.path)
    inside = HandMade(tmp_path / "lake/orders", 9)
    warehouse = warehouse_over(tmp_path / "lake")
    before = snapshot(tmp_path)

    for target in (table, inside):
        outcome = write_savepoint(tmp_path, savepoint_request(target, at(2)), warehouse)
        assert isinstance(outcome, SavepointRejected)
        assert outcome.reason == "outside-warehouse"
    assert snapshot(tmp_path) == before


def test_a_table_in_the_middle_of_a_restore_gets_no_savepoint(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED))

    assert refusal(tmp_path, savepoint_request(table, at(2))) == "restore-pending"


def test_another_command_is_not_answered(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())

    with pytest.raises(PermanentError):
        list(writer.execute(restore_request(table, at(2))))
