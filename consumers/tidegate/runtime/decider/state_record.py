"""What a changelog keeps of a table, and how that is serialized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter

S = TypeVar("S")
Positions = dict[str, int]
"""By input topic the offset to apply next."""
_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}
"""Making one takes milliseconds, and a decider needs it for each of its partitions."""


@dataclass(frozen=True, slots=True)
class StateRecord(Generic[S]):
    """A table's state, and the input positions up to which it was applied.

    A dataclass, because one is written for each table of a step, and a pydantic model costs twice
    as much.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    applied: Positions
    state: S


def record_adapter(state_type: type[S]) -> TypeAdapter[StateRecord[S]]:
    """How records of such states are read from JSON, and written."""
    adapter = _ADAPTERS.get(state_type)
    if adapter is None:
        adapter = _ADAPTERS[state_type] = TypeAdapter(StateRecord[state_type])  # type: ignore[valid-type]
    return adapter
