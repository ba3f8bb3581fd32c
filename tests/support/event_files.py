"""The files of an event that follow from its model: schema, example, and the example's bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel

from tidegate import events
from tidegate.events import Event
from tidegate.events.codec import encode
from tidegate.monitoring.docstrings import attribute_docs

FOLDER: Final = Path(events.__file__).parent
_PLAIN: Final = {str: "string", bytes: "bytes", int: "long", bool: "boolean"}
_NAMED: Final = {"record", "enum"}
_SAMPLES: Final = {
    "string": "text",
    "bytes": "",
    "long": 1,
    "boolean": True,
    "timestamp-micros": "2026-11-28T04:15:51.845Z",
}


def write_event_files(folder: Path = FOLDER) -> None:
    """Write what is missing: schemas, fields in them, examples. Encode every example again.

    What a schema says about a field that it has stays. A new field is documented by the docstring
    below it in the model, else as another event documents a field of that name.

    Raises:
        LookupError: a new field has no docstring.
    """
    known = [_read(file) for file in sorted(folder.glob("avro/*.avsc"))]
    samples = [_read(file) for file in sorted(folder.glob("examples/*.json"))]
    for name, kind in exported().items():
        file = folder / f"avro/{name}.avsc"
        old = _read(file) if file.is_file() else _record(kind)
        has = {field["name"] for field in old["fields"]}
        new = [_field(kind, field, known) for field in kind.model_fields if field not in has]
        if new:
            _write(file, {**old, "fields": [*old["fields"], *new]})
        example = folder / f"examples/{name}.json"
        if not example.is_file():
            # without an id, which is derived
            fields = {field["name"]: _sample(field, samples) for field in [*old["fields"], *new]}
            event = kind.model_validate(fields | {"event_id": ""})
            _write(example, event.model_dump(mode="json"))
        event = kind.model_validate_json(example.read_text("utf-8"))
        _write(example, event.model_dump(mode="json"))  # with its id, if that was removed
        example.with_suffix(".bin").write_bytes(encode(event))


def exported() -> dict[str, type[Event]]:
    """The exported events without their bases: `EVENT_TYPES` has those with a schema."""
    kinds = [it for it in vars(events).values() if isinstance(it, type) and issubclass(it, Event)]
    bases = {parent for kind in kinds for parent in kind.__mro__[1:]}
    return {kind.__name__: kind for kind in kinds if kind not in bases}


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _record(model: type[BaseModel]) -> dict[str, Any]:
    doc = " ".join(str(model.__doc__).split())
    named = {"type": "record", "name": model.__name__}
    if issubclass(model, Event):
        named["namespace"] = "io.tidegate.events"
    return {**named, "doc": doc, "fields": []}


def _field(model: type[BaseModel], name: str, known: list[dict[str, Any]]) -> dict[str, Any]:
    info = model.model_fields[name]
    docs = [attribute_docs(base).get(name) for base in model.__mro__ if _is_ours(base)]
    docs += [it.get("doc") for it in _parts(known) if it.get("name") == name]
    if (doc := next(filter(None, docs), None)) is None:
        raise LookupError(f"{model.__name__}.{name}: write a docstring below it, with its unit")
    made = {"name": name, "type": _type(info.annotation, known), "doc": doc}
    if not info.is_required() and name != "event_id":  # an event always has one
        default = info.get_default(call_default_factory=True)
        made["default"] = json.loads(json.dumps(default))
    return made


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("tidegate.")


def _type(annotation: Any, known: list[dict[str, Any]]) -> Any:  # noqa: ANN401, PLR0911 - any type
    if annotation is AwareDatetime:
        return {"type": "long", "logicalType": "timestamp-micros"}
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in {UnionType, Union}:
        return ["null", *(_type(arg, known) for arg in args if arg is not NoneType)]
    if origin is Annotated:
        return _type(args[0], known)
    if origin is tuple:
        return {"type": "array", "items": _type(args[0], known)}
    if origin is dict:
        return {"type": "map", "values": "string"}
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    name = "TableFormat" if origin is Literal else annotation.__name__
    for it in _parts(known):  # another event may have defined it
        if it.get("name") == name and it.get("type") in _NAMED:
            return it
    if issubclass(annotation, StrEnum):
        return {"type": "enum", "name": name, "symbols": [str(member) for member in annotation]}
    fields = [_field(annotation, field, known) for field in annotation.model_fields]
    return {**_record(annotation), "fields": fields}


def _parts(avro: object) -> Iterator[dict[str, Any]]:
    """Every object in schemas, at any depth."""
    if isinstance(avro, dict):
        yield avro
        avro = list(avro.values())
    if isinstance(avro, list):
        for part in avro:
            yield from _parts(part)


def _sample(field: dict[str, Any], samples: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - JSON
    """What another example has in a field of that name, else a value of its type."""
    found = [sample[field["name"]] for sample in samples if sample.get(field["name"]) is not None]
    is_enum = any("symbols" in part for part in _parts(field["type"]))
    return found[0] if found and not is_enum else _sample_of(field["type"])


def _sample_of(avro: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON
    match avro:
        case str():
            return _SAMPLES[avro]
        case [*_, branch]:
            return _sample_of(branch)
        case {"logicalType": logical}:
            return _SAMPLES[logical]
        case {"items": items}:
            return [_sample_of(items)]
        case {"values": _}:
            return {}
        case {"symbols": [first, *_]}:
            return first
        case _:
            return {field["name"]: _sample_of(field["type"]) for field in avro["fields"]}


if __name__ == "__main__":
    write_event_files()
