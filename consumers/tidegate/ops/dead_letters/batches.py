"""Dead letters in batches, and where their originals are read together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tidegate.runtime.bus import Partition

if TYPE_CHECKING:
    from tidegate.ops.dead_letters.box import ListedDeadLetter

MAX_LETTERS: Final = 500
MAX_BYTES: Final = 8 * 2**20
"""Of the values in a batch; one that is larger is a batch of its own."""
_GAP: Final = 1000
"""Records in between that are read rather than that another reader is opened."""
_NOTHING: Final = range(0)


def in_batches(listed: Iterable[ListedDeadLetter]) -> Iterator[Sequence[ListedDeadLetter]]:
    """Group dead letters as they come, so that a batch and its originals fit into memory."""
    batch: list[ListedDeadLetter] = []
    size = 0
    for each in listed:
        value = len(each.dead_letter.record.value or b"")
        if batch and (len(batch) == MAX_LETTERS or size + value > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += value
    if batch:
        yield batch


def reading_rounds(
    places: Iterable[tuple[Partition, int]],
) -> Iterator[Mapping[Partition, range]]:
    """The spans to read for records at these offsets: one for each partition in every round.

    Dead letters of one cause are neighbours, so a batch of them takes one round or two.
    """
    offsets: dict[Partition, list[int]] = {}
    for partition, offset in sorted(set(places)):
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
