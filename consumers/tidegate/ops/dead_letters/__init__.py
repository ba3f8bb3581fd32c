"""Dead letters: list, show, redrive, discard; every resolution is an audit event."""

from __future__ import annotations

from tidegate.ops.dead_letters.box import DeadLetterBox, ListedDeadLetter, Original
from tidegate.ops.dead_letters.dead_letter import DeadLetter, DeadLetterFilter, is_destructive
from tidegate.ops.dead_letters.reading import in_batches

__all__ = [
    "DeadLetter",
    "DeadLetterBox",
    "DeadLetterFilter",
    "ListedDeadLetter",
    "Original",
    "in_batches",
    "is_destructive",
]
