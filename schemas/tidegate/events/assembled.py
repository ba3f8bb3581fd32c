"""Events and their parts made from values that were checked already, without checking them again.

pydantic checks every value of every event it makes, and that is a third of what a decider does. An
instance made here is the same as one of pydantic's, down to its slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from tidegate.events.base import Event

E = TypeVar("E", bound=Event)
SLOTS: Final = (
    "__dict__",
    "__pydantic_fields_set__",
    "__pydantic_extra__",
    "__pydantic_private__",
)
"""What pydantic sets in an instance: the fields, the names of those given, and two of None."""
put_fields, put_names, put_extra, put_private = (vars(BaseModel)[name].__set__ for name in SLOTS)


def assemble(kind: type[E], values: dict[str, Any]) -> E:
    """Make an event of its fields, of which none is missing. The rules over several are applied.

    Args:
        kind: The kind of the event.
        values: Every field in the order of the model, valid and of the model's own types; the
            `event_id` may be empty. They become the event's own: the caller may not change them.

    Raises:
        ValueError: a rule over several fields is broken.
    """
    made = object.__new__(kind)
    put_fields(made, values)
    put_names(made, _names(kind))
    put_extra(made, None)
    put_private(made, None)
    for rule in _rules(kind):
        rule(made)
    return made


@cache
def _names(kind: type[Event]) -> set[str]:
    """Shared: it has every field, so nothing can add to it, and a frozen model removes nothing."""
    return set(kind.model_fields)


@cache
def _rules(kind: type[Event]) -> tuple[Callable[[Any], Any], ...]:
    return tuple(
        validator.func for validator in kind.__pydantic_decorators__.model_validators.values()
    )
