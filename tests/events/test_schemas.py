"""The models and the .avsc files say the same, and the examples are what travels."""

from __future__ import annotations

import json
import shutil
import types
import typing
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import AwareDatetime, BaseModel

from support.event_examples import example_of
from support.event_files import FOLDER, exported, write_event_files
from tidegate.events import CleaningHoldRequested, TaskOverdue, UnknownTableResolved, WritesAborted
from tidegate.events.base import Event
from tidegate.events.codec import decode, encode, schema_of, schema_text
from tidegate.events.topics import EVENT_TYPES, TOPICS, topic_of
from tidegate.events.wire import Wire

PLAIN = {str: "string", bytes: "bytes", int: "long", bool: "boolean"}
every_event = pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=lambda kind: kind.__name__)


def avro_type(annotation: Any) -> Any:  # noqa: ANN401, PLR0911 - any type in, any schema out
    if annotation is AwareDatetime:
        return {"type": "long", "logicalType": "timestamp-micros"}
    match get_origin(annotation), get_args(annotation):
        case (types.UnionType | typing.Union, args):
            (inner,) = (arg for arg in args if arg is not type(None))
            return ["null", avro_type(inner)]
        case (typing.Annotated, (inner, *_)):
            return avro_type(inner)
        case (origin, (inner, *_)) if origin is tuple:
            return {"type": "array", "items": avro_type(inner)}
        case (origin, _) if origin is dict:
            return {"type": "map", "values": "string"}
        case (typing.Literal, symbols):  # an enum of one module, without a class
            return {"enum": "TableFormat", "symbols": list(symbols)}
    if issubclass(annotation, StrEnum):
        return {"enum": annotation.__name__, "symbols": [member.value for member in annotation]}
    if issubclass(annotation, BaseModel):
        return {"record": annotation.__name__, "fields": fields_of(annotation)}
    return PLAIN[annotation]


def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    return {name: avro_type(field.annotation) for name, field in model.model_fields.items()}


def plain(schema: Any, named: dict[str, Any]) -> Any:  # noqa: ANN401 - Avro schemas are JSON
    if isinstance(schema, list):
        return [plain(branch, named) for branch in schema]
    if isinstance(schema, str):
        return named.get(schema, schema)
    match schema["type"]:
        case "enum":
            short = {"enum": schema["name"], "symbols": schema["symbols"]}
        case "record":
            short = {
                "record": schema["name"],
                "fields": {f["name"]: plain(f["type"], named) for f in schema["fields"]},
            }
        case "array":
            return {"type": "array", "items": plain(schema["items"], named)}
        case _:
            return {key: value for key, value in schema.items() if key != "doc"}
    named[schema["name"]] = short
    return short


def example(kind: type[Event]) -> tuple[bytes, Event]:
    folder = files("tidegate.events").joinpath("examples")
    shown = folder.joinpath(f"{kind.__name__}.json").read_text("utf-8")
    return example_of(kind.__name__), kind.model_validate_json(shown)


@every_event
def test_model_and_schema_have_the_same_fields_and_types(kind: type[Event]) -> None:
    schema = plain(json.loads(schema_text(kind.__name__)), {})

    assert schema["record"] == kind.__name__
    assert schema["fields"] == fields_of(kind)


@every_event
def test_a_field_that_may_be_left_out_has_the_same_default_in_both(kind: type[Event]) -> None:
    schema = json.loads(schema_text(kind.__name__))
    defaults = {f["name"]: f["default"] for f in schema["fields"] if "default" in f}
    model = {
        name: json.loads(json.dumps(field.get_default(call_default_factory=True)))
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }
    assert model.pop("event_id") == ""  # derived, so that what is written always has one
    assert model == defaults


@every_event
def test_every_field_of_a_schema_is_documented(kind: type[Event]) -> None:
    schema = json.loads(schema_text(kind.__name__))

    assert [f["name"] for f in schema["fields"] if not f.get("doc")] == []
    assert schema["doc"]


@every_event
def test_every_example_is_what_travels(kind: type[Event]) -> None:
    value, event = example(kind)

    assert decode(value) == event
    assert encode(event) == value
    assert Wire().kind(value) is kind


@every_event
def test_an_event_survives_its_message(kind: type[Event]) -> None:
    _, event = example(kind)
    serialized = Wire().serialize(event, "any")

    assert Wire().deserialize(serialized.key, serialized.value) == event
    assert dict(serialized.headers)["ce_id"] == event.event_id.encode()
    assert dict(serialized.headers)["ce_type"] == f"io.tidegate.{kind.__name__}".encode()


@every_event
def test_every_event_travels_on_exactly_one_topic(kind: type[Event]) -> None:
    assert [topic.suffix for topic in TOPICS if kind in topic.events] == [topic_of(kind).suffix]


def without_files(kind: type[Event], folder: Path) -> None:
    """Everything in the folder that the events have, but for this one's."""
    for part in ("avro", "examples"):
        shutil.copytree(FOLDER / part, folder / part)
    for file in (f"avro/{kind.__name__}.avsc", f"examples/{kind.__name__}.json"):
        (folder / file).unlink()


@pytest.mark.parametrize("kind", [TaskOverdue, CleaningHoldRequested, WritesAborted])
def test_the_files_of_a_new_event_are_made_from_its_model(
    kind: type[Event], tmp_path: Path
) -> None:
    without_files(kind, tmp_path)
    write_event_files(tmp_path)

    made = json.loads((tmp_path / f"avro/{kind.__name__}.avsc").read_text("utf-8"))
    assert plain(made, {})["fields"] == fields_of(kind)
    assert [f["name"] for f in made["fields"] if not f.get("doc")] == []
    known = json.loads(schema_text(kind.__name__))
    assert {f["name"] for f in made["fields"] if "default" in f} == {
        f["name"] for f in known["fields"] if "default" in f
    }
    example_file = tmp_path / f"examples/{kind.__name__}.json"
    event = kind.model_validate_json(example_file.read_text("utf-8"))
    assert encode(event) == example_file.with_suffix(".bin").read_bytes()


def test_every_exported_event_has_a_schema() -> None:
    assert exported() == dict(EVENT_TYPES), "run `make docs`"


def test_a_new_field_without_a_docstring_is_named(tmp_path: Path) -> None:
    without_files(UnknownTableResolved, tmp_path)

    with pytest.raises(
        LookupError, match=r"UnknownTableResolved\.unknown_since: write a docstring"
    ):
        write_event_files(tmp_path)


def test_no_two_events_share_a_fingerprint() -> None:
    assert len({schema_of(kind).fingerprint for kind in EVENT_TYPES.values()}) == len(EVENT_TYPES)
