from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.acid import FIVE_LISTINGS, NOTHING_OPEN, Case, cleaner, found, reader, state_seen
from tidegate.hive.names import Base, Delta
from tidegate.hive.obsolete import (
    FoundDirectory,
    NotEnoughHistory,
    _AcidState,
    acid_state,
    settled_state,
)
from tidegate.hive.write_ids import ValidTxns

IDS_TO_5 = f"t:5:{NOTHING_OPEN}::"


@pytest.mark.parametrize("case", FIVE_LISTINGS, ids=lambda case: case.title)
def test_each_of_the_five_listings_has_its_obsolete_directories(case: Case) -> None:
    directories = found(*sorted(case.directories))
    assert settled_state(directories, cleaner(case.write_ids)).obsolete == tuple(
        sorted(case.obsolete)
    )
    assert sorted(acid_state(directories, reader(case.write_ids)).obsolete) == sorted(case.obsolete)


def test_a_base_shadows_every_delta_at_or_below_it_and_lesser_bases() -> None:
    directories = found("base_2", "base_4", "delta_1_3", "delta_4_4_0", "delta_5_5_0")
    assert acid_state(directories, cleaner(IDS_TO_5)) == _AcidState(
        base="base_4", current=("delta_5_5_0",), obsolete=("base_2", "delta_1_3", "delta_4_4_0")
    )


def test_the_widest_delta_shadows_those_within_it() -> None:
    directories = found("delta_3_4", "delta_1_4", "delta_1_2", "delete_delta_2_2_0", "delta_5_5_0")
    state = acid_state(directories, cleaner(IDS_TO_5))
    assert state.current == ("delta_1_4", "delta_5_5_0")
    assert state.obsolete == ("delta_1_2", "delete_delta_2_2_0", "delta_3_4")


def test_every_statement_of_one_transaction_is_read_until_a_compaction_holds_them() -> None:
    statements = ("delete_delta_2_2_1", "delta_2_2_0", "delta_2_2_1")
    state = acid_state(found(*statements), cleaner(IDS_TO_5))
    assert sorted(state.current) == list(statements)
    compacted = acid_state(found("delta_2_2_v9", *statements), cleaner(IDS_TO_5))
    assert compacted.current == ("delta_2_2_v9",)
    assert sorted(compacted.obsolete) == list(statements)


def test_inserts_and_deletes_of_one_range_are_read_together() -> None:
    state = acid_state(found("delta_1_4", "delete_delta_1_4", "delta_4_4_0"), cleaner(IDS_TO_5))
    assert sorted(state.current) == ["delete_delta_1_4", "delta_1_4"]
    assert state.obsolete == ("delta_4_4_0",)


def test_two_compactions_of_the_same_range_are_both_read() -> None:
    state = acid_state(found("delta_1_3_v7", "delta_1_3_v8"), cleaner(IDS_TO_5))
    assert state.current == ("delta_1_3_v7", "delta_1_3_v8")
    assert state.obsolete == ()


def test_a_delta_of_open_ids_is_neither_read_nor_obsolete_and_one_of_aborted_ids_is_aborted() -> (
    None
):
    state = acid_state(found("delta_1_1_0", "delta_2_2_0", "delta_3_3_0"), reader("t:5:2:2:3"))
    assert state == _AcidState(current=("delta_1_1_0",), aborted=("delta_3_3_0",))


def test_a_compaction_whose_transaction_is_not_committed_is_not_seen() -> None:
    directories = found("delta_1_1_0", "delta_2_2_0", "delta_1_2_v7", "base_2_v8")
    state = state_seen(directories, reader(IDS_TO_5), ValidTxns.parse("20:7:7:8"))
    assert state == _AcidState(current=("delta_1_1_0", "delta_2_2_0"), aborted=("base_2_v8",))


def test_an_insert_overwrite_needs_only_its_own_id_and_a_compaction_all_below_it() -> None:
    ids = reader("t:5:2:2:")
    overwrite = acid_state(found("base_4", "delta_1_1_0"), ids)
    assert (overwrite.base, overwrite.obsolete) == ("base_4", ("delta_1_1_0",))
    with pytest.raises(NotEnoughHistory):
        acid_state(found("base_4_v9", "delta_1_1_0"), ids)


def test_an_insert_overwrite_that_is_open_is_ignored_and_one_that_aborted_is_aborted() -> None:
    state = acid_state(found("base_2", "base_4", "delta_1_1_0"), reader("t:5:3:3,4:2"))
    assert state == _AcidState(current=("delta_1_1_0",), aborted=("base_2",))


def test_the_delta_of_a_later_vacuum_shadows_nothing_for_an_earlier_vacuums_cleaner() -> None:
    """HIVE-27526: with a reader's list, delta_1_3 would go under those who still read it."""
    directories = found("delta_1_1_0", "delta_1_3", "delta_1_5", "delta_4_4_0", "delta_5_5_0")
    ids = f"t:3:{NOTHING_OPEN}::"
    assert settled_state(directories, cleaner(ids)).obsolete == ("delta_1_1_0",)
    assert "delta_1_3" in settled_state(directories, reader(ids)).obsolete


def test_a_directory_that_is_obsolete_in_one_order_only_is_kept() -> None:
    ids = cleaner("t:9:5:5:")
    unusable_first = found("base_6", "base_7_v9", "base_9")
    assert acid_state(unusable_first, ids).obsolete == ("base_6",)
    assert acid_state(unusable_first[::-1], ids).obsolete == ("base_7_v9", "base_6")
    assert settled_state(unusable_first, ids).obsolete == ("base_6",)


def test_of_two_compacted_bases_of_one_write_id_neither_is_surely_obsolete() -> None:
    """Hive keeps the one that it meets last."""
    twins = found("base_3_v7", "base_3_v8")
    assert acid_state(twins, cleaner(IDS_TO_5)).obsolete == ("base_3_v7",)
    assert acid_state(twins[::-1], cleaner(IDS_TO_5)).obsolete == ("base_3_v8",)
    assert settled_state(twins, cleaner(IDS_TO_5)).obsolete == ()


WRITE_ID = st.integers(1, 6)
ANY_BASE = st.builds(Base, WRITE_ID, st.none() | st.integers(1, 2))
ANY_DELTA = st.builds(
    lambda low, width, statement, deletes: Delta(low, low + width, statement, deletes=deletes),
    WRITE_ID,
    st.integers(0, 3),
    st.none() | st.integers(0, 1),
    st.booleans(),
)
ANY_IDS = st.builds(
    lambda mark, opened, aborted: (
        f"t:{mark}:{min(opened, default=NOTHING_OPEN)}:{','.join(map(str, sorted(opened)))}"
        f":{','.join(map(str, sorted(aborted - opened)))}"
    ),
    st.integers(1, 8),
    st.sets(WRITE_ID, max_size=2),
    st.sets(WRITE_ID, max_size=2),
)


@given(
    bases=st.lists(ANY_BASE, max_size=4, unique=True),
    deltas=st.lists(ANY_DELTA, max_size=4, unique=True),
    text=ANY_IDS,
    as_cleaner=st.booleans(),
)
def test_surely_obsolete_is_what_every_order_of_the_listing_calls_obsolete(
    bases: list[Base], deltas: list[Delta], text: str, *, as_cleaner: bool
) -> None:
    ids = cleaner(text) if as_cleaner else reader(text)
    found_bases = [FoundDirectory(base.name, base) for base in bases]
    found_deltas = [FoundDirectory(delta.name, delta) for delta in deltas]
    directories = found_bases + found_deltas
    orders = [[*order, *found_deltas] for order in permutations(found_bases)]
    try:
        answers = [set(acid_state(order, ids).obsolete) for order in orders]
    except NotEnoughHistory:
        with pytest.raises(NotEnoughHistory):
            settled_state(directories, ids)
        return
    assert set(settled_state(directories, ids).obsolete) == set.intersection(*answers)
