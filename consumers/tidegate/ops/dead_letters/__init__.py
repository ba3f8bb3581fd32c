"""Dead letters: list, show, redrive, discard; every resolution is an audit event."""

from __future__ import annotations

from tidegate.ops.dead_letters.box import DeadLetterBox
from tidegate.ops.dead_letters.dead_letter import DeadLetter, DeadLetterFilter, is_destructive

__all__ = ["DeadLetter", "DeadLetterBox", "DeadLetterFilter", "is_destructive"]
