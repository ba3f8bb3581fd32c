"""Describes invalid settings: one line for each problem, with its key path, never with a value."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, get_args

from pydantic import AliasChoices, BaseModel, ValidationError

from tidegate.errors.validation import problem_of

_UNKNOWN: Final = "extra_forbidden"


@dataclass(frozen=True, slots=True)
class AcceptedNames:
    """One setting: every name that is accepted for it, and its model if it is a section."""

    names: tuple[str, ...]
    section: type[BaseModel] | None


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


def accepted_names(model: type[BaseModel]) -> dict[str, AcceptedNames]:
    """Every accepted name of a model's settings."""
    found: dict[str, AcceptedNames] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        names = tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (name,)
        found.update(dict.fromkeys(names, AcceptedNames(names, _model_in(field.annotation))))
    return found


def _line(kind: str, path: tuple[int | str, ...], message: str, model: type[BaseModel]) -> str:
    if kind == _UNKNOWN:
        message = f"unknown setting{suggestion(str(path[-1]), _preferred(model, path[:-1]))}"
    where = ".".join(map(str, path))
    return f"{where}: {message}" if where else message


def _preferred(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """The preferred names of the section at this path; empty if any name is accepted."""
    for step in path:
        if isinstance(step, int):
            continue
        found = accepted_names(model).get(step)
        if found is None or found.section is None:
            return []
        model = found.section
    return sorted({name.names[0] for name in accepted_names(model).values()})


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model in a type such as `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
