"""The locks of a vacuum with very many, column by column: a fifth of the bytes. Pure.

Ids are differences to the one before; partitions, types and owners are looked up in a list of
those that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

Row = tuple[int, int | None, str | None, str | None, str | None]
"""Lock, transaction, partition, type, owner."""
MAX_ROWS: Final = 1_000_000
"""Ten times what one publication may name: several of one vacuum may have other holds each."""
_WIDTH: Final = 5
_MIXED: Final = 0xBF58476D1CE4E5B9
_64_BITS: Final = 2**64 - 1


def to_columns(rows: Sequence[Row]) -> list[Any]:
    """The columns of rows, as JSON has them."""
    if not rows:
        return []
    ids, txns, *texts = zip(*rows, strict=True)
    return [_differences(ids), _differences(txns), *map(_indexed, texts)]


def from_columns(columns: Any) -> Iterator[Row]:  # noqa: ANN401 - JSON
    """The rows of columns.

    Raises:
        ValueError, TypeError, LookupError: they are not columns that `to_columns` made.
    """
    if not columns:
        return iter(())
    ids, txns, *texts = columns
    if len(columns) != _WIDTH or len(ids) > MAX_ROWS:
        raise ValueError(f"{len(columns)} columns of {len(ids)} locks")
    return zip(_sums(ids), _sums(txns), *map(_looked_up, texts, repeat(len(ids))), strict=True)


def mixed(hold: Sequence[int]) -> int:
    """A number by which holds are in an order that has nothing to do with that of their ends.

    A vacuum watches one hold after the other. In the order of their age, readers that end youngest
    first would have it look at all of its holds for each of them; in this order it is a look for
    each doubling of their number, whoever ends first.
    """
    value = hold[0] & _64_BITS
    value = ((value ^ (value >> 30)) * _MIXED) & _64_BITS
    return value ^ (value >> 31)


def _differences(values: Iterable[int | None]) -> list[int | None]:
    last, made = 0, list[int | None]()
    for value in values:
        made.append(None if value is None else value - last)
        last = last if value is None else value
    return made


def _sums(differences: Iterable[int | None]) -> Iterator[Any]:
    last = 0
    for difference in differences:
        if difference is None:
            yield None
        else:
            last += difference
            yield last


def _indexed(texts: Sequence[str | None]) -> list[Any]:
    """The texts that there are, and which one each row has; one alone is that of all rows."""
    there = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return [list(there), [] if len(there) == 1 else [there[text] for text in texts]]


def _looked_up(column: Any, count: int) -> Iterator[str | None]:  # noqa: ANN401 - JSON
    texts, numbers = column
    if not numbers and len(texts) == 1:
        return repeat(texts[0], count)
    return (texts[number] for number in numbers)
