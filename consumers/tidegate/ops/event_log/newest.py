"""The newest events of a log, whatever their size: large ones are kept compressed."""

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
"""Bytes of a record from which on its event is kept compressed: a decoded one has several times as
many, in names of directories or in locks, which compress to a tenth."""
_MANY_NAMES: Final = 200
_FASTEST: Final = 1


@dataclass(frozen=True, slots=True)
class _Packed:
    """A large event: everything but the record's bytes, which are not needed any more."""

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
        """The event again."""
        return replace(self.bare, event=self.kind.model_validate_json(zlib.decompress(self.packed)))


class NewestEvents(Sequence[LoggedEvent]):
    """At most so many events, in the order in which they came.

    A large one is unpacked each time that it is asked for, so that only one of them takes its whole
    memory; its record has neither a value nor headers then.
    """

    def __init__(self, limit: int, events: Iterable[LoggedEvent] = ()) -> None:
        """Take events, and keep the last so many."""
        self._kept: deque[LoggedEvent | _Packed] = deque(maxlen=limit)
        self.dropped = 0
        """How many older ones were not kept."""
        for event in events:
            self.add(event)

    def add(self, logged: LoggedEvent) -> None:
        """Take the next event."""
        self.dropped += len(self._kept) == self._kept.maxlen
        self._kept.append(_kept(logged))

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def __iter__(self) -> Iterator[LoggedEvent]:
        """One after the other."""
        return map(_whole, self._kept)

    @overload
    def __getitem__(self, index: int) -> LoggedEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LoggedEvent]: ...
    def __getitem__(self, index: int | slice) -> LoggedEvent | Sequence[LoggedEvent]:
        """One of them; or several, unpacked."""
        if isinstance(index, slice):
            return [_whole(event) for event in list(self._kept)[index]]
        return _whole(self._kept[index])


def _kept(logged: LoggedEvent) -> LoggedEvent | _Packed:
    event, size = logged.event, len(logged.record.value or b"")
    if event is None:
        return logged if size < LARGE else replace(logged, record=_place_of(logged))
    # one in parts has only the bytes of its last part
    is_large = size >= LARGE or (
        isinstance(event, DirectoriesOutcome) and len(event.directories) > _MANY_NAMES
    )
    return _Packed.of(logged, event) if is_large else logged


def _whole(kept: LoggedEvent | _Packed) -> LoggedEvent:
    return kept.unpacked() if isinstance(kept, _Packed) else kept


def _place_of(logged: LoggedEvent) -> Record:
    """Its record without the bytes: the headers of a received one have the whole message."""
    return logged.record._replace(value=None, headers=())
