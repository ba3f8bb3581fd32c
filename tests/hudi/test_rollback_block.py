from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.hudi.rollback_block import MAX_SIZE, RollbackBlock

OF_HUDI = bytes.fromhex(
    "234855444923000000000000005b000000010000000000000003"
    "000000030000000130"
    "00000000000000113230323631313232303934373339303732"
    "00000001000000113230323631313232303934373332333739"
    "0000000000000000000000000000000000000061"
)
BLOCK = RollbackBlock("20261122094732379", "20261122094739072")


def test_a_rollback_block_is_written_as_hudi_writes_it() -> None:
    assert BLOCK.encode() == OF_HUDI
    assert RollbackBlock.decode(OF_HUDI) == BLOCK


@given(
    st.from_regex(r"[0-9]{14,24}", fullmatch=True), st.from_regex(r"[0-9]{14,24}", fullmatch=True)
)
def test_a_rollback_block_reads_back(target: str, instant: str) -> None:
    block = RollbackBlock(target, instant)

    assert RollbackBlock.decode(block.encode()) == block
    assert len(block.encode()) <= MAX_SIZE


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(OF_HUDI[:-1], id="torn"),
        pytest.param(OF_HUDI + OF_HUDI, id="two blocks"),
        pytest.param(
            OF_HUDI.replace(b"\x00\x00\x00\x010", b"\x00\x00\x00\x011"), id="other command"
        ),
        pytest.param(OF_HUDI[:21] + b"\x02" + OF_HUDI[22:], id="a block of data"),
        pytest.param(OF_HUDI.replace(b"20261122094732379", b"../../../../../.."), id="no instant"),
    ],
)
def test_other_blocks_are_not_taken_for_a_rollback(content: bytes) -> None:
    assert RollbackBlock.decode(content) is None


@given(st.binary(max_size=MAX_SIZE))
def test_any_bytes_are_read_without_harm(content: bytes) -> None:
    assert RollbackBlock.decode(b"#HUDI#" + content) is None
