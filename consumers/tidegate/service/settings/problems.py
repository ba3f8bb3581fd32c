"""Describes invalid settings: one line for each problem, with its key path, never with a value."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tidegate.errors.validation import problem_of

_UNKNOWN: Final = "extra_forbidden"


def problems(error: ValidationError, model: type[BaseModel]) -> tuple[str, ...]:
    """One line a problem; for an unknown name, the nearest known one is suggested.

    Args:
        error: What the model raised.
        model: The settings' model.
    """
    found = error.errors(include_url=False, include_input=False)
    return tuple(_line(fault["type"], fault["loc"], problem_of(fault), model) for fault in found)


def suggestion(name: str, known: Collection[str]) -> str:
    """The end of an error about an unknown name: the nearest known name, or all of them."""
    if nearest := difflib.get_close_matches(name, known, n=1):
        return f", did you mean {nearest[0]}?"
    return f", known: {', '.join(sorted(known))}" if known else ""


def _line(kind: str, path: tuple[int | str, ...], message: str, model: type[BaseModel]) -> str:
    if kind == _UNKNOWN:
        message = f"unknown setting{suggestion(str(path[-1]), _known(model, path[:-1]))}"
    where = ".".join(map(str, path)).removesuffix(".[key]")
    if kind == "tuple_type" and _known(model, path):
        message = f"write [[{where}]]: there may be several"
    return f"{where}: {message}" if where else message


def _known(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """The names of the section at this path; empty if any name is accepted."""
    for step in path:
        if isinstance(step, int):
            continue
        field = model.model_fields.get(step)
        inner = model_in(field.annotation)[0] if field else None
        if inner is None:
            return []
        model = inner
    return sorted(model.model_fields)


def model_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:  # noqa: ANN401 - any type
    """The section in an annotation, and whether there may be several."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for arg in get_args(annotation):
        inner, is_list = model_in(arg)
        if inner is not None:
            return inner, is_list or get_origin(annotation) is tuple
    return None, False
