"""Group dead letters into batches, and plan the reading of their originals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tidegate.runtime.bus import Partition

if TYPE_CHECKING:
    from tidegate.ops.dead_letters.box import ListedDeadLetter

MAX_DEAD_LETTERS: Final = 500
MAX_BYTES: Final = 8 * 2**20
"""The values of a batch together; a larger dead letter is a batch of its own."""
_GAP: Final = 1000
"""Skip gaps up to this many records by reading them: that is cheaper than another reader."""
_NOTHING: Final = range(0)


def in_batches(listed: Iterable[ListedDeadLetter]) -> Iterator[Sequence[ListedDeadLetter]]:
    """Group dead letters as they come, so that a batch and its originals fit into memory."""
    batch: list[ListedDeadLetter] = []
    size = 0
    for row in listed:
        value = len(row.dead_letter.record.value or b"")
        if batch and (len(batch) == MAX_DEAD_LETTERS or size + value > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += value
    if batch:
        yield batch


def reading_rounds(
    locations: Iterable[tuple[Partition, int]],
) -> Iterator[Mapping[Partition, range]]:
    """The spans to read for records at these offsets; a round has at most one per partition.

    Dead letters of one cause are neighbours, so a batch usually takes one or two rounds.
    """
    offsets: dict[Partition, list[int]] = {}
    for partition, offset in sorted(set(locations)):
        offsets.setdefault(partition, []).append(offset)
    spans = {partition: _runs(offset) for partition, offset in offsets.items()}
    for together in zip_longest(*spans.values(), fillvalue=_NOTHING):
        yield {part: span for part, span in zip(spans, together, strict=True) if span}


def _runs(offsets: Sequence[int]) -> list[range]:
    runs: list[range] = []
    for offset in offsets:
        if runs and offset - runs[-1].stop <= _GAP:
            runs[-1] = range(runs[-1].start, offset + 1)
        else:
            runs.append(range(offset, offset + 1))
    return runs
