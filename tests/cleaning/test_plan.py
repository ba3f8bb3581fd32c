from __future__ import annotations

import pytest

from support.acid import (
    COMPACTED,
    DELETE_4,
    IDS_1_TO_4,
    INSERT_1,
    INSERT_2,
    INSERT_3,
    INSERT_4,
    INSERTS,
    MAJOR_3,
    MAJOR_4,
    MINOR_3,
    MINOR_4,
    MINOR_DELETES_4,
    NOTHING_OPEN,
    TRUNCATED,
    VACUUMED,
    Case,
    emptied,
    listed,
    release,
    release_of,
)
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import partition_path, plan_cleaning
from tidegate.events import CleaningReleased
from tidegate.storage import ListedFile
from tidegate.tables.refusal import Refused

AFTER_MINOR = listed(*INSERTS, MINOR_3)


def planned(
    listing: tuple[ListedDirectory, ...] | None, command: CleaningReleased
) -> tuple[str, ...]:
    return plan_cleaning(listing, command).directories


def refused(listing: tuple[ListedDirectory, ...] | None, command: CleaningReleased) -> str:
    with pytest.raises(Refused) as refused:
        plan_cleaning(listing, command)
    assert refused.value.message
    return refused.value.reason


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_each_of_the_five_listings_is_planned(case: Case) -> None:
    assert planned(listed(*case.directories), release_of(case)) == tuple(sorted(case.obsolete))


def test_a_plan_counts_the_files_and_bytes_that_would_go() -> None:
    plan = plan_cleaning(AFTER_MINOR, release())
    assert (plan.files, plan.bytes) == (6, 2703)


def test_what_is_clean_already_needs_nothing() -> None:
    assert planned(listed(MINOR_3), release()) == ()


def test_a_directory_removed_half_is_still_planned() -> None:
    assert planned(listed(MINOR_3, INSERT_2, empty=(INSERT_1,)), release()) == (INSERT_1, INSERT_2)


@pytest.mark.parametrize(
    ("names", "directories", "own"),
    [
        pytest.param(("delta_0000001_0000003_v0000007",), (MINOR_3,), 7, id="said without"),
        pytest.param(("delta_0000001_0000003_v0000007",), (MINOR_3,), None, id="said of none"),
        pytest.param(
            ("delta_0000001_0000003_v0000007",), ("delta_1_3_v7",), None, id="said with it"
        ),
    ],
)
def test_a_product_is_found_with_its_transaction_in_its_name(
    names: tuple[str, ...], directories: tuple[str, ...], own: int | None
) -> None:
    command = release(directories=directories, own_transaction_id=own)
    assert planned(listed(*INSERTS, *names), command) == INSERTS


def test_another_transactions_compaction_is_not_taken_for_the_product() -> None:
    command = release(own_transaction_id=8)
    assert (
        refused(listed(*INSERTS, "delta_0000001_0000003_v0000007"), command) == "products-missing"
    )


def test_a_release_of_an_earlier_table_at_the_same_place_is_refused_by_its_transaction() -> None:
    """Write ids begin at 1 again in a table that was dropped and created anew; transactions don't.

    Hive 3's names have no transaction: there the two can't be distinguished (docs/limits.md).
    """
    anew = listed(*INSERTS, "delta_0000001_0000003_v0000041")
    for directories, own in (((MINOR_3,), 7), (("delta_0000001_0000003_v0000007",), None)):
        earlier = release(directories=directories, own_transaction_id=own)
        assert refused(anew, earlier) == "products-missing"


def test_nothing_goes_while_a_product_is_missing() -> None:
    assert refused(listed(*INSERTS), release()) == "products-missing"
    assert refused((), release()) == "products-missing"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param((), id="nothing in it"),
        pytest.param((ListedFile("_orc_acid_version", 1),), id="a version file only"),
        pytest.param((ListedFile("bucket_00000", 0),), id="an empty bucket"),
        pytest.param((ListedFile("bucket_00000", 9, is_link=True),), id="a link"),
        pytest.param((ListedFile(".bucket_00000.crc", 9),), id="a checksum"),
        pytest.param((ListedFile("bucket_00000_flush_length", 9),), id="a side file"),
        pytest.param((ListedFile("000000_0.tmp", 9),), id="a draft"),
    ],
)
def test_nothing_goes_while_a_product_holds_no_bucket_file(files: tuple[ListedFile, ...]) -> None:
    listing = (*listed(*INSERTS), ListedDirectory(MINOR_3, "/wh/t", files))
    assert refused(listing, release()) == "products-incomplete"


@pytest.mark.parametrize(
    "name",
    [
        "bucket_00000",
        "bucket_00012_0",
        "000000_0",
        "000000_0_copy_1",
        "000000_0.gz",
        "000000_0_copy_1.deflate",
        "000001_0.snappy.parquet",
    ],
)
def test_a_bucket_file_of_any_kind_of_table_makes_a_product_complete(name: str) -> None:
    product = ListedDirectory(MINOR_3, "/wh/t", (ListedFile(name, 9),))
    assert planned((product, *listed(*INSERTS)), release()) == INSERTS


DELETING = release(
    directories=(MINOR_4, MINOR_DELETES_4), max_write_id=4, valid_write_ids=IDS_1_TO_4
)


def test_deletes_go_only_if_a_product_of_deletes_holds_them() -> None:
    """Without it the deleted rows would be back."""
    assert refused(listed(INSERT_1, INSERT_4, DELETE_4, MINOR_4), DELETING) == "not-covered"
    listing = listed(INSERT_1, DELETE_4, MINOR_4, empty=(MINOR_DELETES_4,))
    assert refused(listing, DELETING) == "not-covered"


@pytest.mark.parametrize("empty", [(), (MINOR_DELETES_4,)], ids=["absent", "empty"])
def test_a_product_of_deletes_may_be_missing_where_there_was_nothing_deleted(
    empty: tuple[str, ...],
) -> None:
    listing = listed(INSERT_1, INSERT_4, MINOR_4, empty=empty)
    assert planned(listing, DELETING) == (INSERT_1, INSERT_4)


DELETED_ONLY = listed(MAJOR_3, DELETE_4, MINOR_DELETES_4)


@pytest.mark.parametrize("empty", [(), (MINOR_4,)], ids=["absent", "empty"])
def test_a_product_of_inserts_may_be_missing_where_there_were_only_deletes(
    empty: tuple[str, ...],
) -> None:
    """The event names both of a minor vacuum's possible products."""
    assert planned((*DELETED_ONLY, *listed(empty=empty)), DELETING) == (DELETE_4,)


def test_inserts_go_only_if_a_product_of_inserts_contains_them() -> None:
    assert refused((*DELETED_ONLY, *listed(INSERT_4)), DELETING) == "not-covered"
    nothing_left = listed(MAJOR_3, DELETE_4, empty=(MINOR_DELETES_4, MINOR_4))
    assert refused(nothing_left, DELETING) == "products-incomplete"
    assert refused(listed(MAJOR_3, DELETE_4), DELETING) == "products-missing"


EMPTYING = release(kind="major", directories=(MAJOR_4,), max_write_id=4, valid_write_ids=IDS_1_TO_4)


def test_the_base_of_a_table_whose_rows_were_all_deleted_holds_its_version_file_alone() -> None:
    """So Hive's own compactor leaves it."""
    listing = (emptied(MAJOR_4), *listed(*INSERTS, DELETE_4))
    assert planned(listing, EMPTYING) == (DELETE_4, *INSERTS)


def test_deletes_outlive_the_rows_that_they_delete() -> None:
    """Else a reader sees those again, and after a crash nothing says why a base is empty."""
    plan = plan_cleaning((emptied(MAJOR_4), *listed(*INSERTS, DELETE_4)), EMPTYING)
    assert [[move.name for move in phase] for phase in plan.phases] == [[*INSERTS], [DELETE_4]]


@pytest.mark.parametrize(
    "names", [(INSERT_1, DELETE_4), (DELETE_4,), ()], ids=["some rows", "deletes", "nothing"]
)
def test_what_a_crash_left_beside_a_base_of_no_rows_still_goes(names: tuple[str, ...]) -> None:
    listing = (emptied(MAJOR_4), *listed(*names))
    assert planned(listing, EMPTYING) == tuple(sorted(names))


def test_a_base_of_no_rows_beside_rows_that_nothing_deleted_has_lost_them() -> None:
    assert refused((emptied(MAJOR_4), *listed(*INSERTS)), EMPTYING) == "products-incomplete"
    deleted_later = (emptied(MAJOR_4), *listed(*INSERTS, "delete_delta_0000005_0000005_0000"))
    assert refused(deleted_later, EMPTYING) == "products-incomplete"


def test_directories_without_a_file_need_no_delete_beside_a_base_of_no_rows() -> None:
    listing = (emptied(MAJOR_4), *listed(empty=INSERTS))
    assert planned(listing, EMPTYING) == INSERTS


@pytest.mark.parametrize(
    "files",
    [
        pytest.param((), id="nothing in it, which no reader sees"),
        pytest.param((ListedFile("_orc_acid_version", 0),), id="an empty version file"),
        pytest.param((ListedFile("_orc_acid_version", 1, is_link=True),), id="a link"),
        pytest.param((ListedFile("_SUCCESS", 1),), id="another file"),
        pytest.param(
            (ListedFile("_orc_acid_version", 1), ListedFile("bucket_00000", 0)),
            id="an empty bucket beside it",
        ),
        pytest.param(
            (ListedFile("_orc_acid_version", 1), ListedFile("_tmp_bucket_00000", 9)),
            id="a draft beside it",
        ),
    ],
)
def test_another_base_without_a_bucket_file_is_not_complete(files: tuple[ListedFile, ...]) -> None:
    base = ListedDirectory(MAJOR_4, "/wh/t", files)
    assert refused((base, *listed(*INSERTS, DELETE_4)), EMPTYING) == "products-incomplete"


def test_the_empty_base_of_hive_3_has_a_marker_of_its_compactor_too() -> None:
    files = (ListedFile("_metadata_acid", 48), ListedFile("_orc_acid_version", 1))
    base = ListedDirectory(MAJOR_4, "/wh/t", files, data_format=COMPACTED)
    assert planned((base, *listed(*INSERTS, DELETE_4)), EMPTYING) == (DELETE_4, *INSERTS)


def test_the_base_of_a_truncate_is_not_taken_for_the_one_that_a_vacuum_made() -> None:
    """It may not have committed: then the rows that it would replace are still read."""
    files = (ListedFile("_metadata_acid", 48), ListedFile("_orc_acid_version", 1))
    base = ListedDirectory(MAJOR_4, "/wh/t", files, data_format=TRUNCATED)
    aborted = EMPTYING.model_copy(
        update={"valid_write_ids": f"default.table_txn_001:4:{NOTHING_OPEN}::4"}
    )
    assert refused((base, *listed(*INSERTS, DELETE_4)), aborted) == "products-incomplete"


def test_a_base_that_is_said_to_be_of_something_else_refuses_all() -> None:
    files = (ListedFile("_metadata_acid", 3), ListedFile("bucket_00000", 9))
    base = ListedDirectory("base_0000001", "/wh/t", files, data_format=b"{}")
    assert refused((base, *AFTER_MINOR), release()) == "bad-name"


def test_an_empty_base_replaces_rows_that_an_insert_overwrite_of_nothing_had_replaced() -> None:
    overwritten = (emptied(MAJOR_4), emptied(MAJOR_3), *listed(*INSERTS))
    assert planned(overwritten, EMPTYING) == (MAJOR_3, *INSERTS)


@pytest.mark.parametrize(
    "overwrite",
    [
        pytest.param(ListedDirectory(MAJOR_3, "/wh/t"), id="which no reader sees"),
        pytest.param(listed(MAJOR_3)[0], id="with rows"),
        pytest.param(emptied("base_0000002"), id="before the last insert"),
    ],
)
def test_another_insert_overwrite_does_not_explain_an_empty_base(
    overwrite: ListedDirectory,
) -> None:
    assert (
        refused((emptied(MAJOR_4), overwrite, *listed(*INSERTS)), EMPTYING) == "products-incomplete"
    )


def test_a_checksum_beside_the_version_file_is_nothing() -> None:
    files = (ListedFile("._orc_acid_version.crc", 12), ListedFile("_orc_acid_version", 1))
    base = ListedDirectory(MAJOR_4, "/wh/t", files)
    assert planned((base, *listed(*INSERTS, DELETE_4)), EMPTYING) == (DELETE_4, *INSERTS)


def test_inserts_are_not_held_by_a_product_of_deletes() -> None:
    command = release(directories=(MINOR_DELETES_4,), max_write_id=4, valid_write_ids=IDS_1_TO_4)
    assert refused(listed(INSERT_1, MINOR_DELETES_4), command) == "not-covered"


def test_directories_of_aborted_ids_go_with_the_vacuum_that_spans_them() -> None:
    ids = f"default.table_txn_001:4:{NOTHING_OPEN}::2,4"
    listing = listed(
        INSERT_1, INSERT_2, INSERT_3, INSERT_4, MINOR_3, "delete_delta_0000002_0000002"
    )
    assert planned(listing, release(valid_write_ids=ids)) == (
        "delete_delta_0000002_0000002",
        *INSERTS,
    )


def test_aborted_directories_outside_a_products_range_of_write_ids_stay() -> None:
    """The vacuum names a range of 1 to 3, but its product only reaches from 2 to 3."""
    ids = f"default.table_txn_001:3:{NOTHING_OPEN}::1,2"
    narrow = "delta_0000002_0000003"
    command = release(directories=(narrow,), valid_write_ids=ids)
    assert planned(listed(*INSERTS, narrow), command) == (INSERT_2, INSERT_3)


def test_a_directory_of_an_open_id_stays() -> None:
    """openLooKeng passes open ids on as committed ones."""
    ids = "default.table_txn_001:3:2:2:"
    assert planned(AFTER_MINOR, release(valid_write_ids=ids)) == (INSERT_1, INSERT_3)


def test_a_second_vacuums_work_is_left_to_it() -> None:
    """HIVE-27526."""
    listing = listed(*INSERTS, MINOR_3, INSERT_4, MINOR_4)
    assert planned(listing, release()) == INSERTS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"directories": ("..other",)}, "bad-name", id="a product of another name"),
        pytest.param({"directories": ("delta_1",)}, "bad-name", id="a product that can't be read"),
        pytest.param({"kind": "major"}, "vacuum-mismatch", id="a delta of a major vacuum"),
        pytest.param({"directories": (MAJOR_3,)}, "vacuum-mismatch", id="a base of a minor one"),
        pytest.param({"max_write_id": 2}, "vacuum-mismatch", id="a product beyond the range"),
        pytest.param({"min_write_id": 2}, "vacuum-mismatch", id="a product before the range"),
        pytest.param(
            {"valid_write_ids": f"table_txn_001:2:{NOTHING_OPEN}::"},
            "vacuum-mismatch",
            id="a range beyond the snapshot",
        ),
        pytest.param({"valid_write_ids": "what"}, "bad-snapshot", id="not a valid snapshot"),
        pytest.param(
            {"valid_write_ids": f"default.other:3:{NOTHING_OPEN}::"},
            "bad-snapshot",
            id="another table's snapshot",
        ),
        pytest.param(
            {"valid_write_ids": f"other:3:{NOTHING_OPEN}::"},
            "bad-snapshot",
            id="another table's snapshot, without the name of a database",
        ),
        pytest.param(
            {"valid_write_ids": f"txn_001:3:{NOTHING_OPEN}::"},
            "bad-snapshot",
            id="the snapshot of a table whose name ends this one's",
        ),
    ],
)
def test_a_vacuum_that_makes_no_sense_is_refused(changes: dict[str, object], reason: str) -> None:
    assert refused(AFTER_MINOR, release(**changes)) == reason


def test_a_directory_that_is_not_there_is_refused() -> None:
    assert refused(None, release()) == "no-such-table"


def test_one_bad_name_in_the_table_refuses_all() -> None:
    assert refused((*AFTER_MINOR, *listed("delta_x")), release()) == "bad-name"


def test_a_link_or_a_file_with_the_name_of_an_acid_directory_refuses_all() -> None:
    link = AFTER_MINOR[0]._replace(is_plain=False)
    assert refused((link, *AFTER_MINOR[1:]), release()) == "link-inside"


def test_a_link_in_a_directory_to_remove_refuses_all() -> None:
    linked = ListedDirectory(INSERT_1, "/wh/t", (ListedFile("b", 1, is_link=True),))
    assert refused((linked, *listed(MINOR_3)), release()) == "link-inside"


def test_a_snapshot_that_cannot_be_read_from_the_vacuums_own_base_is_refused() -> None:
    command = release(
        kind="major", directories=(MAJOR_3,), valid_write_ids="default.table_txn_001:9:2:2:"
    )
    assert refused(listed(MAJOR_3, *INSERTS), command) == "not-enough-history"


def test_a_later_vacuums_base_of_ids_that_were_open_does_not_stop_an_earlier_vacuum() -> None:
    command = release(valid_write_ids="default.table_txn_001:9:4:4:")
    assert planned((*AFTER_MINOR, *listed("base_8_v9")), command) == INSERTS
    marked = ListedDirectory(
        "base_8",
        "/wh/t",
        (ListedFile("_metadata_acid", 48), ListedFile("bucket_00000", 9)),
        data_format=COMPACTED,
    )
    assert planned((*AFTER_MINOR, marked), command) == INSERTS


@pytest.mark.parametrize(
    "partition", ["..", "a/../b", "/etc", "p=1/", "p=1//q=2", ".", "a\\b", "p=\n", "s3://x/y"]
)
def test_a_partition_that_steps_out_of_the_table_is_refused(partition: str) -> None:
    with pytest.raises(Refused, match="bad-partition"):
        partition_path(partition)


def test_a_partition_is_a_path_below_the_table() -> None:
    assert partition_path("p=1/q=a%3Ab") == "p=1/q=a%3Ab"
    assert partition_path(None) == ""
