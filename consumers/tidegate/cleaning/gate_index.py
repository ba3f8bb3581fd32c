"""The reader gate's index of one table: what has ended, and which vacuum watches which hold.

A waiting vacuum watches only one of its holds. When that hold ends, it watches the next one that
has not ended, until there is none. So a release costs what it sets in motion, not the number of
vacuums or of their holds, and the record of a vacuum never has to be rewritten.

A hold is named by tokens: an even number for a lock, an odd one for a transaction. A lock that
belongs to a transaction has two, because it ends with either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tidegate.runtime.protocols import Pieces

Hold = tuple[int, ...]
"""The tokens of what ends a hold: any one of them does."""


def lock_token(lock_id: int) -> int:
    """The token of a lock."""
    return 2 * lock_id


def transaction_token(transaction_id: int) -> int:
    """The token of a transaction."""
    return 2 * transaction_id + 1


def expired_token(token: int) -> int:
    """What is remembered beside the token of a hold that ended because it expired."""
    return -1 - token


class ClosedChunk(NamedTuple):
    """A full chunk: its number, when its last id was remembered (ms), and how many it has."""

    number: int
    at: int
    size: int


class RememberedIds:
    """Ids in numbered chunks; the last one is open, the others are records of their own."""

    __slots__ = ("_latest", "closed", "open")

    def __init__(
        self, closed: Iterable[tuple[ClosedChunk, Iterable[int]]], open_ids: Iterable[int]
    ) -> None:
        """Take the closed chunks with their ids, in any order, and the ids of the open one."""
        self.closed: deque[ClosedChunk] = deque()
        self._latest: dict[int, int] = {}
        for chunk, ids in sorted(closed):
            self.closed.append(chunk)
            self._latest.update(dict.fromkeys(ids, chunk.number))
        self.open = self.closed[-1].number + 1 if self.closed else 0
        self._latest.update(dict.fromkeys(open_ids, self.open))

    @property
    def tokens(self) -> Collection[int]:
        """The ids that are remembered, to look up many."""
        return self._latest

    def __contains__(self, key: int) -> bool:
        """Whether an id is remembered."""
        return key in self._latest

    def __len__(self) -> int:
        """How many ids are remembered."""
        return len(self._latest)

    def add(self, keys: Iterable[int]) -> list[int]:
        """Remember ids from now on; give those that the open chunk did not have already."""
        latest, number = self._latest, self.open
        added: list[int] = []
        for key in keys:
            if latest.get(key) != number:
                latest[key] = number
                added.append(key)
        return added

    def close_chunk(self, at: int, size: int) -> int:
        """Begin a new open chunk; return the number of the one that is closed."""
        number = self.open
        self.closed.append(ClosedChunk(number, at, size))
        self.open += 1
        return number

    def has_old(self, before: int) -> bool:
        """Whether the oldest closed chunk was closed before a moment (ms)."""
        return bool(self.closed) and self.closed[0].at < before

    def expired(self, before: int, limit: int) -> list[ClosedChunk]:
        """The oldest closed chunks: those from before a moment (ms), and those beyond the limit."""
        found: list[ClosedChunk] = []
        excess = len(self._latest) - limit
        for chunk in self.closed:
            if chunk.at >= before and excess <= 0:
                break
            found.append(chunk)
            excess -= chunk.size
        return found

    def forget(self, chunk: ClosedChunk, ids: Iterable[int]) -> list[int]:
        """Drop the oldest closed chunk; return the ids that no later chunk has."""
        self.closed.popleft()
        forgotten = [key for key in ids if self._latest.get(key) == chunk.number]
        for key in forgotten:
            del self._latest[key]
        return forgotten


class GateIndex:
    """What a decision looks up. Derived from the table's records, and kept up to date in place."""

    __slots__ = (
        "_watchers", "cleaned", "holds", "is_held", "is_new", "is_unknown", "pieces", "ready",
        "released", "waiting",
    )  # fmt: skip

    def __init__(self, pieces: Pieces, released: RememberedIds, cleaned: RememberedIds) -> None:
        """Begin with no vacuum waiting."""
        self.pieces, self.released, self.cleaned = pieces, released, cleaned
        self._watchers: dict[int, str | set[str]] = {}
        """By token the vacuum that watches it, or several."""
        self.waiting = 0
        """How many vacuums wait."""
        self.holds = 0
        """How many holds they have in all."""
        self.ready: list[str] = []
        """Waiting vacuums without a hold that has not ended, found when the table was loaded."""
        self.is_held = False
        """Whether somebody holds the table."""
        self.is_new = False
        """Whether no event of the table was applied before."""
        self.is_unknown = False
        """Whether only releases of the table are known."""

    def __len__(self) -> int:
        """How much memory it takes, in ids."""
        return len(self.released) + len(self.cleaned) + 2 * self.waiting

    def has_ended(self, hold: Sequence[int]) -> bool:
        """Whether one of the tokens is remembered."""
        ended = self.released.tokens
        return hold[0] in ended or (len(hold) > 1 and hold[1] in ended)

    def any_expired(self, holds: Iterable[Sequence[int]]) -> bool:
        """Whether one of the holds ended because it expired."""
        ended = self.released.tokens
        for hold in holds:  # loops: this runs for every vacuum that is released
            for token in hold:
                if -1 - token in ended:  # see `expired_token`
                    return True
        return False

    def next_hold(self, holds: Iterable[Sequence[int]]) -> Sequence[int] | None:
        """The youngest hold that has not ended: of those like it, it will probably end last.

        Args:
            holds: The youngest first.
        """
        ended = self.released.tokens
        for hold in holds:
            if hold[0] not in ended and (len(hold) == 1 or hold[1] not in ended):
                return hold
        return None

    def watch(self, name: str, hold: Sequence[int]) -> None:
        """Let a vacuum watch this hold."""
        watchers = self._watchers
        for token in hold:
            known = watchers.get(token)
            if known is None:
                watchers[token] = name
            elif isinstance(known, set):
                known.add(name)
            else:
                watchers[token] = {known, name}

    def watching(self, tokens: Iterable[int]) -> Sequence[str]:
        """The vacuums that watched tokens, which have ended. Some may watch another by now."""
        names: Sequence[str] = ()
        for token in tokens:
            found = self._watchers.pop(token, None)
            if found is not None:  # of most releases nobody waits for every token
                names = [*names, found] if isinstance(found, str) else [*names, *found]
        return names
