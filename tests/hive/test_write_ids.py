from __future__ import annotations

import pytest

from support.acid import NOTHING_OPEN, cleaner, reader
from tidegate.errors import FormatError
from tidegate.hive import CleanerWriteIds, Share, ValidTxns, ValidWriteIds


def test_hives_string_is_read_and_written_back() -> None:
    text = "default.t:10:4:4,7:2,5"
    assert ValidWriteIds.parse(text) == ValidWriteIds("default.t", 10, 4, (4, 7), (2, 5))
    assert str(ValidWriteIds.parse(text)) == text
    assert str(ValidTxns.parse("10:4:4,7:2")) == "10:4:4,7:2"


@pytest.mark.parametrize("text", ["t:10:9223372036854775807", f"t:10:{NOTHING_OPEN}::"])
def test_empty_parts_at_the_end_may_be_left_out(text: str) -> None:
    assert ValidWriteIds.parse(text) == ValidWriteIds("t", 10)


def test_ids_are_sorted_and_a_transaction_list_may_hold_ranges() -> None:
    assert ValidWriteIds.parse("t:10:3:7,3:").open == (3, 7)
    assert ValidTxns.parse("10:4:4-6,8:").open == (4, 5, 6, 8)


@pytest.mark.parametrize(
    "text", ["", "t", "t:1", "t:x:1::", "t:1:2:a:", "t:1:2:::", ":1:2::", "t:-1:2::", "t:1_0:2::"]
)
def test_what_is_no_list_of_valid_write_ids_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        ValidWriteIds.parse(text)


def test_a_range_wide_enough_to_fill_memory_is_refused() -> None:
    with pytest.raises(FormatError):
        ValidTxns.parse("10:4:1-9000000000:")


def test_open_and_aborted_ids_and_those_above_the_mark_are_not_valid() -> None:
    ids = reader("t:6:3:3:5")
    assert [n for n in range(1, 9) if ids.is_valid(n)] == [1, 2, 4, 6]
    assert [n for n in range(1, 9) if ids.is_aborted(n)] == [5]
    txns = ValidTxns.parse("6:3:3:5")
    assert [n for n in range(1, 9) if txns.is_valid(n)] == [1, 2, 4, 6]
    assert [n for n in range(1, 9) if txns.is_aborted(n)] == [5]


@pytest.mark.parametrize(
    ("text", "low", "high", "share"),
    [
        pytest.param("t:5:9::", 6, 7, Share.NONE, id="begins above the mark"),
        pytest.param("t:5:9::", 1, 5, Share.ALL, id="no exceptions"),
        pytest.param("t:5:9::", 4, 7, Share.SOME, id="reaches beyond the mark, no exceptions"),
        pytest.param("t:5:9:9:", 4, 7, Share.ALL, id="reaches beyond the mark, below the first"),
        pytest.param("t:5:3:3:", 4, 7, Share.SOME, id="reaches beyond the mark, above the first"),
        pytest.param("t:5:3:3:", 3, 3, Share.NONE, id="only the open one"),
        pytest.param("t:5:3:3:4", 3, 4, Share.NONE, id="only exceptions"),
        pytest.param("t:5:3:3:4", 2, 4, Share.SOME, id="one is valid"),
        pytest.param("t:5:3:3:", 1, 2, Share.ALL, id="ends below the first exception"),
    ],
)
def test_a_reader_counts_a_range_as_hive_does(text: str, low: int, high: int, share: Share) -> None:
    assert reader(text).valid_in(low, high) is share


def test_a_cleaner_sees_nothing_of_a_range_that_reaches_beyond_the_mark() -> None:
    assert reader("t:3:9223372036854775807::").valid_in(1, 5) is Share.SOME
    assert cleaner("t:3:9223372036854775807::").valid_in(1, 5) is Share.NONE
    assert cleaner("t:3:9223372036854775807::").valid_in(1, 3) is Share.ALL


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [(2, 3, Share.ALL), (2, 4, Share.SOME), (4, 4, Share.NONE), (7, 7, Share.NONE)],
)
def test_aborted_ids_are_counted_up_to_the_mark(low: int, high: int, share: Share) -> None:
    assert reader("t:5:9223372036854775807::2,3,7").aborted_in(low, high) is share


def test_the_cleaners_list_is_written_as_the_readers() -> None:
    ids = reader("default.t:10:4:4,7:2,5")
    assert str(CleanerWriteIds.of(ids)) == str(ids)
