"""The newest events of a log, with large ones compressed in memory."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, overload

from tidegate.events import Event
from tidegate.events.outcomes import DirectoriesOutcome
from tidegate.ops.event_log.logged import LoggedEvent
from tidegate.runtime.bus import Record

LARGE: Final = 16_384
"""Events of records with at least this many bytes are compressed. A decoded one takes several times
as much memory, for names of directories or locks, which compress to a tenth."""
_MANY_NAMES: Final = 200
_FASTEST: Final = 1


@dataclass(frozen=True, slots=True)
class _Packed:
    """A compressed large event, without the record's bytes, which are no longer needed."""

    bare: LoggedEvent
    kind: type[Event]
    packed: bytes

    @classmethod
    def of(cls, logged: LoggedEvent, event: Event) -> Self:
        """Pack an event."""
        text = event.model_dump_json().encode()
        bare = LoggedEvent(_place_of(logged), None, logged.problem)
        return cls(bare, type(event), zlib.compress(text, _FASTEST))

    def unpacked(self) -> LoggedEvent:
        """The event, decompressed."""
        return replace(self.bare, event=self.kind.model_validate_json(zlib.decompress(self.packed)))


class NewestEvents(Sequence[LoggedEvent]):
    """The newest events up to a limit, in the order of their arrival.

    A large one is decompressed on each access, so that only one of them takes its full size in
    memory. Its record has neither a value nor headers.
    """

    def __init__(self, limit: int, events: Iterable[LoggedEvent] = ()) -> None:
        """Take events, and retain the last `limit` ones."""
        self._retained: deque[LoggedEvent | _Packed] = deque(maxlen=limit)
        self.dropped = 0
        """The number of older events that were dropped."""
        for event in events:
            self.add(event)

    def add(self, logged: LoggedEvent) -> None:
        """Take the next event."""
        self.dropped += len(self._retained) == self._retained.maxlen
        self._retained.append(_packed(logged))

    def __len__(self) -> int:
        """The number of retained events."""
        return len(self._retained)

    def __iter__(self) -> Iterator[LoggedEvent]:
        """The retained events, oldest first."""
        return map(_unpacked, self._retained)

    @overload
    def __getitem__(self, index: int) -> LoggedEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LoggedEvent]: ...
    def __getitem__(self, index: int | slice) -> LoggedEvent | Sequence[LoggedEvent]:
        """One event, or several, decompressed."""
        if isinstance(index, slice):
            return [_unpacked(event) for event in list(self._retained)[index]]
        return _unpacked(self._retained[index])


def _packed(logged: LoggedEvent) -> LoggedEvent | _Packed:
    event, size = logged.event, len(logged.record.value or b"")
    if event is None:
        return logged if size < LARGE else replace(logged, record=_place_of(logged))
    # the record of an outcome in parts has only the bytes of its last part
    is_large = size >= LARGE or (
        isinstance(event, DirectoriesOutcome) and len(event.directories) > _MANY_NAMES
    )
    return _Packed.of(logged, event) if is_large else logged


def _unpacked(event: LoggedEvent | _Packed) -> LoggedEvent:
    return event.unpacked() if isinstance(event, _Packed) else event


def _place_of(logged: LoggedEvent) -> Record:
    """Its record without value and headers: a received record's headers hold the full message."""
    return logged.record._replace(value=None, headers=())
