"""Errors of pydantic as one line, without its addresses and regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import ValidationError

INSTANT: Final = r"^[0-9]{14}([0-9]{3})?$"
DIRECTORY: Final = r"^[^/\\\x00-\x1f\x7f]{1,255}$"
CONTENT_HASH: Final = r"^[0-9a-f]{64}$"
ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
ID_OR_NONE: Final = rf"{ID}|^$"
POLICY: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
TIER: Final = r"^[a-z][a-z-]{0,29}$"
NAME_PART: Final = r"^[^.\s]+$"
HEADER: Final = r"^[a-zA-Z0-9._-]{1,100}$"
PREFIX: Final = r"^[a-zA-Z0-9._-]{1,200}$"
PRINCIPAL: Final = r"^[A-Za-z]+:[^\x00-\x1f\x7f]+$"
_WORD: Final = "up to 100 of a-z, A-Z, 0-9 and . _ -"
FORMS: Final[Mapping[str, str]] = {
    INSTANT: "write an instant as the timeline does, e.g. 20261124050632494",
    DIRECTORY: "write the name of one directory, without a path",
    CONTENT_HASH: "write 64 hexadecimal digits",
    ID: f"write {_WORD} and :, no sign first",
    ID_OR_NONE: f"write {_WORD} and :, no sign first",
    POLICY: f"write {_WORD}, no sign first",
    TIER: "write up to 30 of a-z and -, no sign first",
    NAME_PART: "write one part of a table's name, without a dot or a space",
    HEADER: f"write {_WORD}",
    PREFIX: "write up to 200 of a-z, A-Z, 0-9 and . _ -, as in the names of Kafka's topics",
    PRINCIPAL: "write a principal as Kafka does, e.g. User:orders-ingest",
}
"""What to write, for every pattern of a field that people fill in."""
_TIME: Final = "write a date and time with its zone, e.g. 2026-11-24T05:06:32Z"
_PLAIN: Final[Mapping[str, str]] = {
    "tuple_type": 'write a list, e.g. ["a", "b"]',
    "list_type": 'write a list, e.g. ["a", "b"]',
    "frozen_set_type": 'write a list, e.g. ["a", "b"]',
    "dict_type": "write a table",
    "model_type": "write a table",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": _TIME,
    "time_delta_type": "write a duration, e.g. 12h",
    "missing": "is missing",
    "extra_forbidden": "is not a field",
    "string_type": "write text",
    "string_unicode": "write text in UTF-8",
    "too_short": "write at least {min_length}",
    "string_too_short": "write some text",
    "string_too_long": "write at most {max_length} characters",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "greater_than": "write more than {gt}",
    "greater_than_equal": "write at least {ge}",
    "less_than": "write less than {lt}",
    "less_than_equal": "write at most {le}",
    "literal_error": "write {expected}",
    "enum": "write {expected}",
}
"""What to write, by pydantic's own kind of the problem."""
_SHOWN: Final = 20


def validation_message(error: ValidationError) -> str:
    """`field: problem; field: problem`, without values: they may be secret or very long."""
    found = error.errors(include_url=False, include_input=False)
    shown = "; ".join(
        ": ".join((*_place(problem["loc"]), problem_of(problem))) for problem in found[:_SHOWN]
    )
    left = len(found) - _SHOWN
    return shown if left <= 0 else f"{shown}; and {left} more"


def problem_of(found: Mapping[str, Any]) -> str:
    """One of pydantic's problems, without the name of its field."""
    context = found.get("ctx", {})
    if plain := _PLAIN.get(found["type"]):
        return plain.format_map(context)
    pattern = context.get("pattern")
    return FORMS.get(str(pattern)) or str(found["msg"]).removeprefix("Value error, ")


def _place(location: tuple[int | str, ...]) -> tuple[str, ...]:
    return (".".join(map(str, location)),) if location else ()
