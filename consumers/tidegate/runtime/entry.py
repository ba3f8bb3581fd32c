"""What a changelog keeps of a table, and how that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter

S = TypeVar("S")
Positions = dict[str, int]
"""By input topic the offset to apply next."""
_FORMS: Final[dict[type[Any], TypeAdapter[Any]]] = {}
"""One takes milliseconds to make, and a decider needs it for each of its partitions."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[S]):
    """A table's state, and the positions at which it stood.

    A dataclass, because one is written for each table of a step, and a pydantic model costs twice
    as much.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    applied: Positions
    state: S


def entry_form(state_type: type[S]) -> TypeAdapter[Entry[S]]:
    """How the entries of such states are read from JSON, and written."""
    form = _FORMS.get(state_type)
    if form is None:
        form = _FORMS[state_type] = TypeAdapter(Entry[state_type])  # type: ignore[valid-type]
    return form
