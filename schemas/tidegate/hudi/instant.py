"""Instants: the names of a Hudi timeline's files as values, for both timeline layouts.

Layout 1 (table versions up to 6) has them in `.hoodie/`, layout 2 (from version 8 on) in
`.hoodie/timeline/`. The names of pending instants are the same; only layout 2 has the completion
time in the name of a completed file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, Self

from tidegate.errors import FormatError


class Layout(IntEnum):
    """`hoodie.timeline.layout.version`."""

    ONE = 1
    TWO = 2


class InstantState(IntEnum):
    """The states that an instant goes through, in this order."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


class Action(StrEnum):
    """What an instant does, as written in file names."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLEAN = "clean"
    SAVEPOINT = "savepoint"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    INDEXING = "indexing"


COMMITS: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The actions of completed writes: what can be savepointed."""

WRITES: Final = COMMITS | {Action.CLUSTERING, Action.COMPACTION, Action.LOG_COMPACTION}
"""The actions that write data files, pending ones too."""

COMPACTIONS: Final = frozenset({Action.COMPACTION, Action.COMMIT})
"""The actions of pending and completed compactions on a merge-on-read table.

A compaction has the rows of its request: what it completes later was in the table before.
"""

COMPLETED_AS: Final = {
    Action.CLUSTERING: Action.REPLACE_COMMIT,
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
}
"""The actions that complete under another name."""

_ACTIONS: Final[Mapping[str, Action]] = {str(action): action for action in Action}
_NAME: Final = re.compile(
    r"(?P<timestamp>\d{14,24})(?:_(?P<completion>\d{14,24}))?"
    r"(?:\.(?P<action>(?!requested|inflight)[a-z]+))?(?:\.(?P<pending>requested|inflight))?"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """One file of a timeline.

    `timestamp` is the requested time, `completion` the completion time, both as Hudi writes
    instants: yyyyMMddHHmmssSSS in the table's time zone. `completion` is None while pending and
    for a bare name of layout 1, which does not contain it.
    """

    timestamp: str
    action: Action
    state: InstantState
    completion: str | None = None

    @classmethod
    def parse(cls, name: str, layout: Layout) -> Self | None:
        """Read a file name; None if it is not the name of an instant."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        timestamp, completion, word, pending = match.groups()
        if word is None and pending != "inflight":
            return None
        action = _action(word) if word else Action.COMMIT
        if action is None or (word == Action.COMMIT and pending == "inflight"):
            return None
        state = InstantState[pending.upper()] if pending else InstantState.COMPLETED
        wants_completion = state is InstantState.COMPLETED and layout is Layout.TWO
        if wants_completion != (completion is not None) or not _exists(action, state, layout):
            return None
        return cls(timestamp, action, state, completion)

    def file_name(self, layout: Layout) -> str:
        """The name of this instant's file; `parse` reads it back.

        Raises:
            FormatError: that layout has no file for this instant.
        """
        if not _exists(self.action, self.state, layout):
            raise FormatError(f"layout {layout} has no file for {self}")
        if self.state is not InstantState.COMPLETED:
            short = self.action is Action.COMMIT and self.state is InstantState.INFLIGHT
            word = "" if short else f".{self.action}"
            return f"{self.timestamp}{word}.{self.state.name.lower()}"
        if layout is Layout.ONE:
            return f"{self.timestamp}.{self.action}"
        if self.completion is None:
            raise FormatError(f"{self} has no completion time, which layout 2 needs in the name")
        return f"{self.timestamp}_{self.completion}.{self.action}"


def _action(word: str) -> Action | None:
    return _ACTIONS.get(word)


def _exists(action: Action, state: InstantState, layout: Layout) -> bool:
    if action is Action.CLUSTERING and layout is Layout.ONE:
        return False
    if action in COMPLETED_AS and state is InstantState.COMPLETED:
        return False
    return not (action is Action.SAVEPOINT and state is InstantState.REQUESTED)
