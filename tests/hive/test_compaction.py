from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.acid import NOTHING_OPEN, VACUUMED, Case, found, state_seen
from tidegate.errors import FormatError
from tidegate.events import VacuumKind
from tidegate.hive.compaction import Compaction, InconsistentCompaction, covers
from tidegate.hive.names import parse_name
from tidegate.hive.obsolete import FoundDirectory, NotEnoughHistory, acid_state
from tidegate.hive.write_ids import ValidTxns, ValidWriteIds
from tidegate.hive_bridge.products import VacuumFields

FIRST_TXN = 100


def minor(
    low: int, high: int, *names: str, ids: str | None = None, txn: int | None = None
) -> Compaction:
    directories = names or (f"delta_{low}_{high}",)
    return vacuumed(VacuumKind.MINOR, low, high, directories, ids, txn=txn)


def major(high: int, *names: str, ids: str | None = None) -> Compaction:
    return vacuumed(VacuumKind.MAJOR, 1, high, names or (f"base_{high}",), ids)


def vacuumed(  # noqa: PLR0913 - the fields of an event
    kind: VacuumKind,
    low: int,
    high: int,
    names: tuple[str, ...],
    ids: str | None = None,
    *,
    txn: int | None = None,
) -> Compaction:
    ids = ids or f"t:{high}:{NOTHING_OPEN}::"
    return VacuumFields("/t", names, low, high, ids, kind, txn).compaction()


def obsolete(vacuum: Compaction, *names: str) -> list[str]:
    return [directory.name for directory in vacuum.removable(found(*names)).obsolete]


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_the_last_vacuum_of_each_listing_made_its_obsolete_directories_obsolete(case: Case) -> None:
    vacuum = vacuumed(VacuumKind(case.kind), 1, case.max_write_id, case.made, case.write_ids)
    chosen = vacuum.removable(found(*case.directories)).obsolete
    assert sorted(directory.name for directory in chosen) == sorted(case.obsolete)


def test_an_earlier_vacuums_product_is_the_later_vacuums_to_remove() -> None:
    """A reader that began between the two vacuums still reads delta_1_3, and 4 and 5."""
    listing = ("delta_1_1_0", "delta_1_3", "delta_4_4_0", "delta_5_5_0", "delta_1_5")
    assert obsolete(minor(1, 3), *listing) == ["delta_1_1_0"]
    assert obsolete(minor(1, 5), *listing) == [
        "delta_1_1_0",
        "delta_1_3",
        "delta_4_4_0",
        "delta_5_5_0",
    ]


def test_an_earlier_attempt_at_the_product_stays_while_readers_merge_it_in() -> None:
    """Of two deltas of one range Hive reads both; only a later vacuum's product shadows them."""
    listing = ("delta_1_1_0", "delta_1_3_v50", "delta_1_3_v60", "delta_1_5_v70")
    assert obsolete(minor(1, 3, "delta_1_3_v60"), *listing) == ["delta_1_1_0"]


@pytest.mark.parametrize("later", ["base_5", "base_5_v99"])
def test_a_later_vacuums_base_judges_nothing_for_an_earlier_vacuum(later: str) -> None:
    """HIVE-29601: with an open id known, Hive's short cut takes a base above the mark."""
    listing = ("delta_1_1_0", "delta_1_3", "delta_4_4_0", later)
    assert obsolete(minor(1, 3, ids="t:3:9:9:"), *listing) == ["delta_1_1_0"]
    assert obsolete(major(3, ids="t:3:9:9:"), "base_2", "base_3", *listing) == [
        "base_2",
        "delta_1_1_0",
        "delta_1_3",
    ]


def test_a_base_above_the_mark_does_not_shadow_what_readers_still_merge() -> None:
    """HIVE-29601 again: by base_5 an earlier attempt's delta would be obsolete as well."""
    listing = ("delta_1_1_0", "delta_1_3_v50", "delta_1_3_v60", "base_5")
    vacuum = minor(1, 3, "delta_1_3_v60", ids="t:3:9:9:")
    assert obsolete(vacuum, *listing) == ["delta_1_1_0"]


def test_a_product_stays_though_a_wider_delta_shadows_it() -> None:
    """A compaction that died may have left a wider delta: by the names alone it would win."""
    listing = ("delta_1_5_v50", "delta_1_3_v60", "delta_1_1_0", "delta_4_4_0")
    vacuum = minor(1, 3, "delta_1_3_v60", ids=f"t:5:{NOTHING_OPEN}::")
    assert obsolete(vacuum, *listing) == ["delta_1_1_0"]


def test_a_minor_vacuum_leaves_what_lies_outside_its_range() -> None:
    listing = ("delta_1_1_0", "delta_3_3_0", "delta_4_4_0", "delta_3_4", "delta_5_5_0")
    assert obsolete(minor(3, 4), "base_2_v7", *listing) == ["delta_3_3_0", "delta_4_4_0"]


def test_what_an_overwrite_replaced_is_left_to_the_next_vacuum_of_the_table() -> None:
    listing = ("delta_1_1_0", "delta_3_3_0", "delta_4_4_0", "delta_3_4")
    assert obsolete(minor(3, 4), "base_2", *listing) == [
        "delta_1_1_0",
        "delta_3_3_0",
        "delta_4_4_0",
    ]


def test_a_major_vacuum_removes_lesser_bases_and_everything_at_or_below_its_own() -> None:
    listing = (
        "base_2",
        "delta_1_1_0",
        "delete_delta_3_3_0",
        "base_4",
        "delta_4_4_0",
        "delta_5_5_0",
    )
    expected = ["base_2", "delta_1_1_0", "delete_delta_3_3_0", "delta_4_4_0"]
    assert obsolete(major(4), *listing) == expected


def test_a_directory_with_a_write_id_that_was_open_is_never_obsolete() -> None:
    listing = ("delta_1_3", "delta_1_1_0", "delta_2_2_0", "delta_2_3", "delta_3_3_0")
    assert obsolete(minor(1, 3, ids="t:3:2:2:"), *listing) == ["delta_1_1_0", "delta_3_3_0"]


def test_what_holds_only_aborted_ids_is_dead_within_the_range_alone() -> None:
    listing = ("delta_1_3", "delta_1_1_0", "delta_2_2_0", "delta_4_4_0")
    vacuum = minor(1, 3, ids=f"t:5:{NOTHING_OPEN}::2,4")
    assert obsolete(vacuum, *listing) == ["delta_1_1_0"]
    assert [directory.name for directory in vacuum.removable(found(*listing)).aborted] == [
        "delta_2_2_0"
    ]


def test_a_product_is_known_with_or_without_its_transaction() -> None:
    plain, visible = parse_name("delta_1_3"), parse_name("delta_1_3_v7")
    assert minor(1, 3, txn=7).is_product(plain)
    assert minor(1, 3, txn=7).is_product(visible)
    assert minor(1, 3).is_product(visible)
    assert minor(1, 3, "delta_1_3_v7").is_product(visible)


def test_another_transactions_directory_is_not_a_product() -> None:
    assert not minor(1, 3, txn=8).is_product(parse_name("delta_1_3_v7"))
    assert not minor(1, 3, "delta_1_3_v8").is_product(parse_name("delta_1_3_v7"))
    assert not minor(1, 3).is_product(parse_name("delete_delta_1_3"))


@pytest.mark.parametrize(
    ("product", "held", "answer"),
    [
        ("delta_1_3", "delta_2_2_0", True),
        ("delta_1_3", "delta_2_4", False),
        ("delta_2_3", "delta_1_3", False),
        ("delta_1_3", "delete_delta_2_2_0", False),
        ("delete_delta_1_3", "delete_delta_2_2_0", True),
        ("delta_1_3", "base_2", False),
        ("base_3", "base_2", True),
        ("base_3", "delete_delta_1_3", True),
        ("base_3", "delta_3_4", False),
    ],
)
def test_a_product_covers_its_range_and_its_kind_of_events(
    product: str, held: str, *, answer: bool
) -> None:
    assert covers(parse_name(product), parse_name(held)) is answer


@pytest.mark.parametrize(
    ("names", "is_major"),
    [
        pytest.param(("base_3",), False, id="a minor vacuum with a base"),
        pytest.param(("delta_1_3",), True, id="a major vacuum with a delta"),
        pytest.param(("delta_1_1_0",), False, id="a statement's delta"),
        pytest.param(("delta_1_4",), False, id="a product above the range"),
        pytest.param(("delta_0_3",), False, id="a product below the range"),
    ],
)
def test_a_vacuum_that_contradicts_itself_is_refused(
    names: tuple[str, ...], *, is_major: bool
) -> None:
    kind = VacuumKind.MAJOR if is_major else VacuumKind.MINOR
    with pytest.raises(InconsistentCompaction):
        vacuumed(kind, 1, 3, names, f"t:9:{NOTHING_OPEN}::")


def test_a_vacuum_of_ids_beyond_its_own_snapshot_is_refused() -> None:
    with pytest.raises(InconsistentCompaction, match="up to 3"):
        minor(1, 3, ids=f"t:2:{NOTHING_OPEN}::")


def test_a_vacuum_of_more_products_than_there_are_kinds_of_events_is_refused() -> None:
    """Every one is compared with every directory of the table, so a long list would take hours."""
    with pytest.raises(InconsistentCompaction, match="names 3 directories"):
        minor(1, 3, "delta_1_3", "delete_delta_1_3", "delta_2_3")
    assert len(minor(1, 3, "delta_1_3", "delta_0000001_0000003").products) == 1


def test_a_product_that_is_not_an_acid_directory_is_refused() -> None:
    with pytest.raises(FormatError):
        minor(1, 3, "delta_1_3/../../other")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], list[Compaction], list[tuple[int, list[str]]]]:
    """A legal history: inserts, deletes, aborts and vacuums; nothing is ever cleaned.

    Gives the names at the end, the vacuums in order, and for each vacuum the write id it ended at
    with the names that there were just after it.
    """
    names: list[str] = []
    vacuums: list[Compaction] = []
    after: list[tuple[int, list[str]]] = []
    aborted: list[int] = []
    write_id, compacted_to, lowest = 0, 0, 1
    for step in draw(st.lists(st.sampled_from("iiidamM"), min_size=3, max_size=12)):
        if step in "ida":
            write_id += 1
            prefix = "delete_delta" if step == "d" else "delta"
            names.append(f"{prefix}_{write_id}_{write_id}_0")
            aborted += [write_id] * (step == "a")
        elif write_id > compacted_to:
            txn = FIRST_TXN + len(vacuums)
            span = f"{lowest}_{write_id}_v{txn}"
            made = (
                (f"base_{write_id}_v{txn}",)
                if step == "M"
                else (f"delta_{span}", f"delete_delta_{span}")
            )
            ids = f"t:{write_id}:{NOTHING_OPEN}::{','.join(map(str, aborted))}"
            vacuum = (
                major(write_id, *made, ids=ids)
                if step == "M"
                else minor(lowest, write_id, *made, ids=ids)
            )
            names += made
            vacuums.append(vacuum)
            after.append((write_id, list(names)))
            compacted_to = write_id
            lowest = write_id + 1 if step == "M" else lowest
    return names, vacuums, after


@given(histories(), st.data())
def test_no_reader_that_began_after_a_vacuum_loses_a_directory_to_it(
    history: tuple[list[str], list[Compaction], list[tuple[int, list[str]]]], data: st.DataObject
) -> None:
    """It took its snapshot after the vacuum, maybe after later ones, and lists the table now.

    Whatever its snapshot reads, of the table as it was at the snapshot or as it is now, stays.
    """
    names, vacuums, after = history
    if not vacuums:
        return
    chosen = data.draw(st.integers(0, len(vacuums) - 1), label="the vacuum that is cleaned")
    vacuum = vacuums[chosen]
    gone = {
        directory.name
        for directory in (
            *vacuum.removable(found(*names)).obsolete,
            *vacuum.removable(found(*names)).aborted,
        )
    }
    latest = data.draw(st.integers(chosen, len(vacuums) - 1), label="the last one it sees")
    mark, seen = after[latest]
    mark += data.draw(st.integers(0, 2), label="writes it sees beyond that")
    snapshot = ValidWriteIds("t", mark, aborted=vacuums[-1].write_ids.aborted)
    for listing in (seen, names):
        state = state_seen(found(*listing), snapshot, ValidTxns(FIRST_TXN + latest))
        assert not {state.base, *state.current} & gone


def test_what_a_later_compaction_made_is_not_this_vacuums_to_remove() -> None:
    mine = minor(1, 5, "delta_1_5_v101", txn=101)
    seen = ["delta_1_2", "delta_1_5_v100", "delta_1_5_v101", "delta_1_5_v102", "base_5_v103"]

    assert obsolete(mine, *seen) == ["delta_1_2", "delta_1_5_v100"]


ABORTED_6 = f"t:6:{NOTHING_OPEN}::6"


def test_a_major_product_without_a_transaction_in_its_name_is_compacted_though_its_id_aborted() -> (
    None
):
    """Hive 3: taken for an aborted insert overwrite, base_6 would make nothing obsolete."""
    listing = ("base_3", "delta_4_6", "base_6")
    vacuum = major(6, ids=ABORTED_6)
    assert obsolete(vacuum, *listing) == ["base_3", "delta_4_6"]
    assert vacuum.removable(found(*listing)).aborted == ()


def test_the_base_of_an_insert_overwrite_that_was_open_stays() -> None:
    """Hive's shortcut by the least open id calls base_2 usable, so base_4 makes it obsolete."""
    listing = ("base_1", "base_2", "base_4", "base_5_v9")
    assert obsolete(major(5, "base_5_v9", ids="t:5:2:2:"), *listing) == ["base_1"]


def as_hive_3(name: str) -> str:
    return name.partition("_v")[0]


@given(histories(), st.data())
def test_no_reader_of_hive_3_loses_a_directory_though_no_name_has_a_transaction(
    history: tuple[list[str], list[Compaction], list[tuple[int, list[str]]]], data: st.DataObject
) -> None:
    """Every base here is a compaction's; a marker file in it may have been seen or not."""
    names, vacuums, after = history
    if not vacuums:
        return
    chosen = data.draw(st.integers(0, len(vacuums) - 1), label="the vacuum that is cleaned")
    vacuum = replace(
        vacuums[chosen],
        products=tuple(parse_name(as_hive_3(product.name)) for product in vacuums[chosen].products),
    )
    has_marker = data.draw(st.booleans(), label="with marker files")

    def listing(of: list[str], *, compacted: bool) -> list[FoundDirectory]:
        unique = dict.fromkeys(map(as_hive_3, of))
        return [FoundDirectory.named(name, compacted=compacted) for name in unique]

    seen = listing(names, compacted=has_marker)
    try:
        gone = {
            directory.name
            for directory in (*vacuum.removable(seen).obsolete, *vacuum.removable(seen).aborted)
        }
    except NotEnoughHistory:
        return
    latest = data.draw(st.integers(chosen, len(vacuums) - 1), label="the last one it sees")
    mark, then = after[latest]
    snapshot = ValidWriteIds("t", mark, aborted=vacuums[-1].write_ids.aborted)
    state = acid_state(listing(then, compacted=True), snapshot)
    assert not {state.base, *state.current} & gone
