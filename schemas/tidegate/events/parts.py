"""Outcomes in parts: names of directories that do not fit into one message. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from tidegate.events.base import Outcome
from tidegate.events.outcomes import DirectoriesOutcome

MAX_NAME_BYTES: Final = 400_000
"""Bytes of names in one part: with everything else, well within a broker's default of 1 MiB."""
_OVERHEAD: Final = 4
"""Bytes of a name's length in Avro, at most."""
T = TypeVar("T")


def split_by_names(named: Iterable[tuple[str, T]]) -> list[list[T]]:
    """Group items so that the names of each group fit into one part; at least one group."""
    groups: list[list[T]] = [[]]
    size = 0
    for name, item in named:
        size += len(name.encode(errors="replace")) + _OVERHEAD
        if size > MAX_NAME_BYTES and groups[-1]:
            groups.append([])
            size = len(name.encode(errors="replace")) + _OVERHEAD
        groups[-1].append(item)
    return groups


class PartsJoiner:
    """Puts the parts of outcomes together, as they come from a partition of the topic.

    Parts follow one another, unless a service was killed between them: what follows is then a
    repeat from the first part, and the parts that were there before it do not become whole.
    """

    def __init__(self) -> None:
        """Begin without any part."""
        self._pending: dict[tuple[str, str | None], list[DirectoriesOutcome]] = {}

    def add(self, outcome: DirectoriesOutcome) -> DirectoriesOutcome | None:
        """Take the next part; the whole outcome if it was the last one, else None.

        `follows` says beforehand whether this part continues what came before.
        """
        if outcome.part is None:
            return outcome
        if outcome.part == 1:
            self._pending[_key(outcome)] = [outcome]
        elif self.follows(outcome):
            self._pending[_key(outcome)].append(outcome)
        else:
            return None
        found = self._pending[_key(outcome)]
        if len(found) < (outcome.parts or 0):
            return None
        return _joined(self._pending.pop(_key(outcome)))

    def follows(self, outcome: DirectoriesOutcome) -> bool:
        """Whether a part is the first one, or the next of those that came before."""
        before = self._pending.get(_key(outcome), [])
        same = all(part.parts == outcome.parts for part in before)
        return outcome.part in (None, 1) or (same and outcome.part == len(before) + 1)


def whole_outcomes(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Put the parts of outcomes together; the others as they are.

    Args:
        outcomes: Those of a partition of the topic, oldest first. Parts that stay without their
            last one are left out.
    """
    parts = PartsJoiner()
    for outcome in outcomes:
        if not isinstance(outcome, DirectoriesOutcome):
            yield outcome
        elif (whole := parts.add(outcome)) is not None:
            yield whole


def _key(outcome: DirectoriesOutcome) -> tuple[str, str | None]:
    return type(outcome).__name__, outcome.caused_by


def _joined(parts: Sequence[DirectoriesOutcome]) -> DirectoriesOutcome:
    first = parts[0]
    fields = first.model_dump() | {
        "directories": tuple(name for part in parts for name in part.directories),
        "files": sum(part.files for part in parts),
        "bytes": sum(part.bytes for part in parts),
        "part": None,
        "parts": None,
    }
    return type(first).model_validate(fields)
