"""What the last bytes of an ORC file tell."""

from __future__ import annotations

import io

import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hive.orc import LONGEST_END, read_orc_end


def file_of(rows: int, compression: pyorc.CompressionKind, columns: int = 1) -> bytes:
    out = io.BytesIO()
    fields = ",".join(f"column_{number}:int" for number in range(columns))
    with pyorc.Writer(out, f"struct<{fields}>", compression=compression) as writer:
        for row in range(rows):
            writer.write((row,) * columns)
    return out.getvalue()


def end_of(content: bytes) -> tuple[bool, int | None]:
    return read_orc_end(content[-LONGEST_END:], len(content))


@pytest.mark.parametrize("rows", [0, 1, 1000])
@pytest.mark.parametrize("compression", [pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZLIB])
def test_the_footer_has_the_number_of_rows(compression: pyorc.CompressionKind, rows: int) -> None:
    assert end_of(file_of(rows, compression)) == (True, rows)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(file_of(100, pyorc.CompressionKind.SNAPPY), id="another compression"),
        pytest.param(file_of(10, pyorc.CompressionKind.NONE, 2_000), id="a footer of many columns"),
    ],
)
def test_a_footer_that_can_not_be_read_leaves_the_rows_unknown(content: bytes) -> None:
    assert end_of(content) == (True, None)


@pytest.mark.parametrize("cut", [1, 5, 20, 100, 200])
def test_a_file_that_was_cut_off_is_not_complete(cut: int) -> None:
    assert end_of(file_of(300, pyorc.CompressionKind.ZLIB)[:-cut]) == (False, None)


@given(st.binary(max_size=300), st.integers(0, 10_000))
def test_other_bytes_raise_nothing(content: bytes, size: int) -> None:
    _, rows = read_orc_end(content, size)
    assert rows is None or rows >= 0
