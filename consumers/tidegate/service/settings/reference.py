"""Every setting with its type, default and meaning, read off the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from tidegate.events.topics import SERVICES
from tidegate.monitoring.docstrings import attribute_docs
from tidegate.service.settings.problems import model_in

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_KINDS: Final[Mapping[object, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "secret text",
    timedelta: "duration, e.g. 12h",
    type(None): "",
}


class _Setting(NamedTuple):
    """One setting of the settings file."""

    section: str
    """The dotted name of its table; of a list of tables, in double brackets."""
    name: str
    kind: str
    default: str
    """As TOML; "none" where there is none, "required" where one has to be given."""
    meaning: str


def settings_reference(model: type[BaseModel]) -> Iterator[_Setting]:
    """Every setting below a model, in the order of the file."""
    yield from _settings_of(model, "")


def _settings_of(model: type[BaseModel], section: str) -> Iterator[_Setting]:
    sections: list[tuple[str, type[BaseModel], bool]] = []
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        inner, is_list = model_in(field.annotation)
        if inner is None:
            meaning = meanings.get(name, "")
            yield _Setting(section, name, _kind(field.annotation), _default(field), meaning)
        elif name.replace("_", "-") not in SERVICES:  # each service has the limits of all
            is_named = get_origin(field.annotation) is dict
            sections.append((f'{name}."NAME"' if is_named else name, inner, is_list))
    for name, inner, is_list in sections:
        # below a list of tables, a table is one of the last element
        dotted = f"{section.strip('[]')}.{name}" if section else name
        yield from _settings_of(inner, f"[{dotted}]" if is_list else dotted)


def _kind(annotation: Any) -> str:  # noqa: ANN401 - any type
    if get_origin(annotation) is Literal:
        return " or ".join(json.dumps(arg) for arg in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(map(json.dumps, annotation))
    if get_origin(annotation) is tuple:
        return f"list of {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict or annotation is dict:
        return "table"
    if annotation in _KINDS:
        return _KINDS[annotation]
    kinds = dict.fromkeys(filter(None, map(_kind, get_args(annotation))))
    return ", ".join(kinds)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    return json.dumps(value)  # of these types the same in JSON and TOML


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's attributes.

    pydantic reads them when a module is imported, which takes a quarter of a command's start.
    """
    bases = (base for base in reversed(model.mro()) if issubclass(base, BaseModel))
    found = (attribute_docs(base) for base in bases if base is not BaseModel)
    return {name: meaning for docs in found for name, meaning in docs.items()}
