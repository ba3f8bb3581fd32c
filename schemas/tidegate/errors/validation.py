"""pydantic's validation errors as one line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError

_SHOWN: Final = 20


def validation_message(error: ValidationError) -> str:
    """`field: problem; field: problem`, without values: they may be secret or very long."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    shown = "; ".join(
        ": ".join((*_place(problem["loc"]), problem["msg"].removeprefix("Value error, ")))
        for problem in found[:_SHOWN]
    )
    left = len(found) - _SHOWN
    return shown if left <= 0 else f"{shown}; and {left} more"


def _place(location: tuple[int | str, ...]) -> tuple[str, ...]:
    return (".".join(map(str, location)),) if location else ()
