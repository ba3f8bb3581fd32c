"""Dead letters for people: listed, shown, sent back, discarded; the outcomes tell of it."""

from __future__ import annotations

from tidegate.deadletters.box import DeadLetterBox, Listed
from tidegate.deadletters.letter import DeadLetter
from tidegate.deadletters.selection import LetterFilter

__all__ = ["DeadLetter", "DeadLetterBox", "LetterFilter", "Listed"]
