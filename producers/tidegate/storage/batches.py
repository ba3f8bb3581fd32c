"""Cut work on many directories into batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

DIRECTORIES_PER_TASK: Final = 100
"""Directories of one parent per task."""

T = TypeVar("T")


def batches_of(items: Sequence[T], size: int = DIRECTORIES_PER_TASK) -> list[Sequence[T]]:
    """Cut into batches of `size`; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
