"""Instants: the file names of a Hudi timeline as values, for both timeline layouts.

Layout 1 (up to table version 6) has its files in `.hoodie/`, layout 2 (from version 8 on) in
`.hoodie/timeline/`. The names of pending instants are the same. Only layout 2 has the completion
time in the names of completed files.
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
    """The action of an instant, as in file names."""

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
"""The actions of completed writes, which can be savepointed."""

WRITES: Final = COMMITS | {Action.CLUSTERING, Action.COMPACTION, Action.LOG_COMPACTION}
"""The actions that write data files, including pending ones."""

COMPACTIONS: Final = frozenset({Action.COMPACTION, Action.COMMIT})
"""The actions of pending and completed compactions on a merge-on-read table.

A compaction contains the rows at the time of its request, however late it completes.
"""

COMPLETED_AS: Final = {
    Action.CLUSTERING: Action.REPLACE_COMMIT,
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
}
"""Pending actions that complete under another name."""

_ACTIONS: Final[Mapping[str, Action]] = {str(action): action for action in Action}
_NAME: Final = re.compile(
    r"(?P<timestamp>\d{14,24})(?:_(?P<completion>\d{14,24}))?"
    r"(?:\.(?P<action>(?!requested|inflight)[a-z]+))?(?:\.(?P<pending>requested|inflight))?"
)


@dataclass(frozen=True, slots=True)
class Instant:
    """One file of a timeline.

    `timestamp` is the requested time and `completion` the completion time, both as
    yyyyMMddHHmmssSSS in the table's time zone. `completion` is None while the instant is pending,
    and for names of layout 1, which do not contain it.
    """

    timestamp: str
    action: Action
    state: InstantState
    completion: str | None = None

    @classmethod
    def parse(cls, name: str, layout: Layout) -> Self | None:
        """Parse a file name; None if it is not the name of an instant."""
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
        """The name of this instant's file; the inverse of `parse`.

        Raises:
            FormatError: the layout has no file for this instant.
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
