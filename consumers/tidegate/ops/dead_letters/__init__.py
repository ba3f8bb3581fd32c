"""Dead letters: list, show, redrive, discard; every resolution is an audit event."""

from __future__ import annotations

from tidegate.ops.dead_letters.batches import in_batches
from tidegate.ops.dead_letters.box import DeadLetterBox, ListedDeadLetter, Original
from tidegate.ops.dead_letters.dead_letter import DeadLetter
from tidegate.ops.dead_letters.origin import is_destructive
from tidegate.ops.dead_letters.selection import DeadLetterFilter

__all__ = [
    "DeadLetter",
    "DeadLetterBox",
    "DeadLetterFilter",
    "ListedDeadLetter",
    "Original",
    "in_batches",
    "is_destructive",
]
