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


def whole_outcomes(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Put the parts of outcomes together; the others as they are.

    Args:
        outcomes: Those of a partition of the topic, oldest first. Parts follow one another, unless
            a service was killed between them: what follows is then a repeat from the first part,
            and parts that stay without their last one are left out.
    """
    pending: dict[tuple[type[Outcome], str | None], list[DirectoriesOutcome]] = {}
    for outcome in outcomes:
        if not isinstance(outcome, DirectoriesOutcome) or outcome.part is None:
            yield outcome
            continue
        key = type(outcome), outcome.caused_by
        found = pending.setdefault(key, [])
        if outcome.part == 1:
            found.clear()
        if outcome.part == len(found) + 1 and all(e.parts == outcome.parts for e in found):
            found.append(outcome)
        if len(found) == outcome.parts:
            yield _joined(pending.pop(key))


def _joined(parts: Sequence[DirectoriesOutcome]) -> DirectoriesOutcome:
    first = parts[0]
    fields = first.model_dump() | {
        "directories": tuple(name for each in parts for name in each.directories),
        "files": sum(each.files for each in parts),
        "bytes": sum(each.bytes for each in parts),
        "part": None,
        "parts": None,
    }
    return type(first).model_validate(fields)
