from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.acid import NOTHING_OPEN, cleaner, reader
from tidegate.errors import FormatError
from tidegate.hive.write_ids import (
    CleanerWriteIds,
    IdRanges,
    RangeResponse,
    ValidTxns,
    ValidWriteIds,
)


def test_hives_string_is_read_and_written_back() -> None:
    text = "default.t:10:4:4,7:2,5"
    assert ValidWriteIds.parse(text) == ValidWriteIds(
        "default.t", 10, 4, IdRanges.of(4, 7), IdRanges.of(2, 5)
    )
    assert str(ValidWriteIds.parse(text)) == text
    assert str(ValidTxns.parse("10:4:4,7:2")) == "10:4:4,7:2"


@pytest.mark.parametrize("text", ["t:10:9223372036854775807", f"t:10:{NOTHING_OPEN}::"])
def test_empty_parts_at_the_end_may_be_left_out(text: str) -> None:
    assert ValidWriteIds.parse(text) == ValidWriteIds("t", 10)


def test_ids_are_sorted_and_a_transaction_list_may_hold_ranges() -> None:
    assert ValidWriteIds.parse("t:10:3:7,3:").open == IdRanges.of(3, 7)
    assert ValidTxns.parse("10:4:4-6,8:").open == IdRanges.of(4, 5, 6, 8)


@pytest.mark.parametrize(
    "text", ["", "t", "t:1", "t:x:1::", "t:1:2:a:", "t:1:2:::", ":1:2::", "t:-1:2::", "t:1_0:2::"]
)
def test_what_is_not_a_list_of_valid_write_ids_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        ValidWriteIds.parse(text)


def test_wide_ranges_take_no_memory() -> None:
    """423 bytes of ranges once made 2 GB of ids."""
    ranges = ",".join(f"{n}000001-{n + 1}000000" for n in range(10, 14))
    tracemalloc.start()
    ids = ValidWriteIds.parse(f"t:9000000000:10000001:{ranges}:20000000-9223372036854775807")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert ids.valid_in(10000001, 14000000) is RangeResponse.NONE
    assert ids.valid_in(8000, 8999) is RangeResponse.ALL
    assert ids.aborted_in(20000000, 9000000000) is RangeResponse.ALL


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("t:10:4:7-4:", id="a reversed range"),
        pytest.param("t:10:4:4-:", id="a range without its end"),
        pytest.param("t:10:4:-4:", id="a range without its start"),
        pytest.param("t:10:4:4-5-6:", id="a range of three ids"),
        pytest.param("t:10:4:4,,5:", id="an id that is missing"),
        pytest.param(f"t:10:4:{'9' * 5000}:", id="a number of 5,000 digits"),
        pytest.param(f"t:{'9' * 5000}:4::", id="a high-water mark of 5,000 digits"),
        pytest.param("t:10:4:9223372036854775808:", id="more than a Java long"),
    ],
)
def test_a_list_that_is_malformed_is_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(FormatError) as error:
        ValidWriteIds.parse(text)
    assert len(str(error.value)) < 400


ID_RANGE = st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(ID_RANGE, max_size=6), st.integers(0, 50), st.integers(0, 50))
def test_ranges_are_asked_as_the_ids_in_them(
    ranges: list[tuple[int, int]], low: int, high: int
) -> None:
    text = ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)
    ids = {number for first, last in ranges for number in range(first, last + 1)}
    parsed = IdRanges.parse(text)
    assert parsed == IdRanges.of(*ids)
    assert IdRanges.parse(str(parsed)) == parsed
    assert (low in parsed) is (low in ids)
    assert parsed.count_in(low, high) == len([id_ for id_ in ids if low <= id_ <= high])


def test_what_hive_reads_are_single_ids_as_long_as_they_are_few() -> None:
    """Hive 4.0 reads no ranges in a ValidWriteIdList."""
    assert str(ValidWriteIds.parse("t:10:4:4-6,8:")) == "t:10:4:4,5,6,8:"
    wide = "t:9000:4:4-8000:"
    assert str(ValidWriteIds.parse(wide)) == wide


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
        pytest.param("t:5:9::", 6, 7, RangeResponse.NONE, id="begins above the mark"),
        pytest.param("t:5:9::", 1, 5, RangeResponse.ALL, id="no exceptions"),
        pytest.param(
            "t:5:9::", 4, 7, RangeResponse.SOME, id="reaches beyond the mark, no exceptions"
        ),
        pytest.param(
            "t:5:9:9:", 4, 7, RangeResponse.ALL, id="reaches beyond the mark, below the first"
        ),
        pytest.param(
            "t:5:3:3:", 4, 7, RangeResponse.SOME, id="reaches beyond the mark, above the first"
        ),
        pytest.param("t:5:3:3:", 3, 3, RangeResponse.NONE, id="only the open one"),
        pytest.param("t:5:3:3:4", 3, 4, RangeResponse.NONE, id="only exceptions"),
        pytest.param("t:5:3:3:4", 2, 4, RangeResponse.SOME, id="one is valid"),
        pytest.param("t:5:3:3:", 1, 2, RangeResponse.ALL, id="ends below the first exception"),
    ],
)
def test_a_reader_counts_a_range_as_hive_does(
    text: str, low: int, high: int, share: RangeResponse
) -> None:
    assert reader(text).valid_in(low, high) is share


def test_a_cleaner_sees_nothing_of_a_range_that_reaches_beyond_the_mark() -> None:
    assert reader("t:3:9223372036854775807::").valid_in(1, 5) is RangeResponse.SOME
    assert cleaner("t:3:9223372036854775807::").valid_in(1, 5) is RangeResponse.NONE
    assert cleaner("t:3:9223372036854775807::").valid_in(1, 3) is RangeResponse.ALL


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [
        (2, 3, RangeResponse.ALL),
        (2, 4, RangeResponse.SOME),
        (4, 4, RangeResponse.NONE),
        (7, 7, RangeResponse.NONE),
    ],
)
def test_aborted_ids_are_counted_up_to_the_mark(low: int, high: int, share: RangeResponse) -> None:
    assert reader("t:5:9223372036854775807::2,3,7").aborted_in(low, high) is share


def test_the_cleaners_list_is_written_as_the_readers() -> None:
    ids = reader("default.t:10:4:4,7:2,5")
    assert str(CleanerWriteIds.of(ids)) == str(ids)
