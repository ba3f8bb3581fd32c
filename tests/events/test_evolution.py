"""Older bytes stay readable, and a bad change of a schema is seen before it travels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version as package_version
from importlib.resources import files
from io import BytesIO
from typing import Any

import avro.schema
import fastavro
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from support.evolution import breaks
from support.samples import commit
from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, Event
from tidegate.events.codec import (
    SINGLE_OBJECT,
    decode,
    decode_body,
    encode_body,
    make_schema,
    previous_texts,
    previous_writers,
    schema_of,
    schema_text,
    writer_from,
)
from tidegate.events.topics import EVENT_TYPES

PREVIOUS = [
    pytest.param(json.loads(text)["name"], text, id=f"{json.loads(text)['name']} {version}")
    for version, text in previous_texts()
]
VACUUM, COMMIT = schema_text("VacuumFinished"), schema_text("CommitCompleted")
REQUEST = {"name": "pipeline", "type": ["null", "string"], "default": None}


def changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    raw = json.loads(text)
    change(raw)
    return json.dumps(raw)


def field(raw: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in raw["fields"] if entry["name"] == name)


def avro_breaks(reader: str, writer: str) -> list[str]:
    """What Apache Avro's own check finds when `reader` reads what `writer` wrote."""
    checker: Any = ReaderWriterCompatibilityChecker  # its constructor has no annotations
    result = checker().get_compatibility(avro.schema.parse(reader), avro.schema.parse(writer))
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(result.messages)


@pytest.mark.parametrize(("name", "previous"), PREVIOUS)
def test_a_schema_breaks_no_previous_version_of_it(name: str, previous: str) -> None:
    assert name in EVENT_TYPES
    assert breaks(previous, schema_text(name)) == []
    assert avro_breaks(reader=schema_text(name), writer=previous) == []
    assert avro_breaks(reader=previous, writer=schema_text(name)) == []


@pytest.mark.parametrize(("name", "previous"), PREVIOUS)
def test_bytes_of_every_previous_version_are_read(name: str, previous: str) -> None:
    model = EVENT_TYPES[name]
    folder = files("tidegate.events").joinpath("examples")
    event = model.model_validate_json(folder.joinpath(f"{name}.json").read_text("utf-8"))
    older = fastavro.parse_schema(json.loads(previous))
    known = {load["name"] for load in json.loads(previous)["fields"]}

    read = decode(SINGLE_OBJECT + make_schema(model, previous).fingerprint + body(older, event))

    assert read.model_dump(include=known) == event.model_dump(include=known)


def test_a_version_that_differs_from_todays_is_read_by_its_own_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = changed(COMMIT, lambda raw: raw["fields"].remove(field(raw, "operation")))
    monkeypatch.setattr("tidegate.events.codec.previous_texts", lambda: [("0.0.9", earlier)])
    previous_writers.cache_clear()
    written = make_schema(CommitCompleted, earlier)
    shown = commit(1).model_copy(update={"operation": "upsert"})

    read = decode(SINGLE_OBJECT + written.fingerprint + body(written.parsed, shown))

    assert read == commit(1)
    previous_writers.cache_clear()


def body(parsed: Any, event: Event) -> bytes:  # noqa: ANN401 - as fastavro has it
    out = BytesIO()
    fastavro.schemaless_writer(out, parsed, event.model_dump())
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        pytest.param(
            COMMIT,
            lambda raw: raw["fields"].append({"name": "pipeline", "type": "string"}),
            "io.tidegate.events.CommitCompleted.pipeline: a new field without a default",
            id="a new field without a default",
        ),
        pytest.param(
            COMMIT,
            lambda raw: raw["fields"].remove(field(raw, "instant")),
            "io.tidegate.events.CommitCompleted.instant: a field without a default was removed",
            id="a field without a default removed",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "instant").update(type="long"),
            "io.tidegate.events.CommitCompleted.instant: string became long",
            id="another type",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "instant").update(type=["null", "string"]),
            "io.tidegate.events.CommitCompleted.instant: string became union",
            id="made optional",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "files_written").update(type=["null", "string"]),
            "io.tidegate.events.CommitCompleted.files_written: long became string",
            id="another type within a union",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "files_written").update(type=["null", "long", "string"]),
            "io.tidegate.events.CommitCompleted.files_written: a union of 2 types became one of 3",
            id="a wider union",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "occurred_at")["type"].update(logicalType="timestamp-millis"),
            "io.tidegate.events.CommitCompleted.occurred_at:"
            " long timestamp-micros became long timestamp-millis",
            id="another unit",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "extra_metadata")["type"].update(values="long"),
            "io.tidegate.events.CommitCompleted.extra_metadata{}: string became long",
            id="a map of something else",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "table_type")["type"].update(symbols=["copy_on_write"]),
            "io.tidegate.events.CommitCompleted.table_type: the symbol merge_on_read was removed",
            id="a symbol removed",
        ),
        pytest.param(
            COMMIT,
            lambda raw: field(raw, "caused_by").pop("default"),
            "io.tidegate.events.CommitCompleted.caused_by: its default was removed",
            id="a default removed",
        ),
        pytest.param(
            COMMIT,
            lambda raw: raw.update(name="CommitDone"),
            "io.tidegate.events.CommitCompleted: record io.tidegate.events.CommitCompleted"
            " became record io.tidegate.events.CommitDone",
            id="another name",
        ),
        pytest.param(
            VACUUM,
            lambda raw: field(raw, "locks")["type"]["items"]["fields"].append(
                {"name": "host", "type": "string"}
            ),
            "io.tidegate.events.VacuumFinished.locks[].host: a new field without a default",
            id="a record within an array",
        ),
    ],
)
def test_a_bad_change_is_named(
    text: str, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    assert breaks(text, changed(text, change)) == [said]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw["fields"].append(REQUEST), id="a new optional field"),
        pytest.param(
            lambda raw: raw["fields"].remove(field(raw, "operation")), id="an optional field gone"
        ),
        pytest.param(
            lambda raw: field(raw, "format")["type"]["symbols"].append("iceberg"), id="a new symbol"
        ),
        pytest.param(lambda raw: raw.update(doc="Said otherwise."), id="another description"),
    ],
)
def test_a_good_change_is_accepted(change: Callable[[dict[str, Any]], object]) -> None:
    assert breaks(COMMIT, changed(COMMIT, change)) == []
    assert avro_breaks(reader=changed(COMMIT, change), writer=COMMIT) == []


class CommitTomorrow(CommitCompleted, frozen=True):
    """The event as a later version may have it."""

    pipeline: str | None = None


CommitTomorrow.__name__ = CommitCompleted.__name__  # the same event, so with the same id
TOMORROW_TEXT = changed(COMMIT, lambda raw: raw["fields"].append(REQUEST))
TOMORROW = make_schema(CommitTomorrow, TOMORROW_TEXT)


def commit_of_tomorrow() -> CommitTomorrow:
    return CommitTomorrow.model_validate({**commit(1).model_dump(), "pipeline": "hourly"})


def test_tomorrows_reader_reads_todays_bytes_with_the_default() -> None:
    today = replace(TOMORROW, parsed=schema_of(CommitCompleted).parsed, resolve_to=TOMORROW.parsed)

    event = decode_body(encode_body(commit(1)), 0, today)

    assert event == CommitTomorrow.model_validate(commit(1).model_dump())


def test_todays_reader_reads_tomorrows_bytes_once_it_has_their_schema() -> None:
    assert decode_body(
        body(TOMORROW.parsed, commit_of_tomorrow()), 0, writer_from(TOMORROW_TEXT)
    ) == (commit(1))


def test_tomorrows_bytes_without_their_schema_say_why_they_cannot_be_read() -> None:
    value = SINGLE_OBJECT + TOMORROW.fingerprint + body(TOMORROW.parsed, commit_of_tomorrow())

    with pytest.raises(FormatError, match="if a newer Tidegate wrote"):
        decode(value)


def test_a_symbol_that_only_tomorrow_knows_is_a_format_error() -> None:
    text = changed(COMMIT, lambda raw: field(raw, "format")["type"]["symbols"].insert(0, "iceberg"))
    shown = {**commit(1).model_dump(), "format": "iceberg"}
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), shown)

    with pytest.raises(FormatError, match="corrupt CommitCompleted"):
        decode_body(out.getvalue(), 0, writer_from(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", "not an Avro schema", id="no JSON"),
        pytest.param('{"type": "secret"}', "not an Avro schema", id="no Avro"),
        pytest.param('"string"', "the schema of string", id="a plain type"),
        pytest.param(
            '{"type": "record", "name": "CommitCompleted", "fields": []}',
            "the schema of CommitCompleted, which is not a Tidegate event",
            id="our name without our namespace",
        ),
        pytest.param(
            '{"type": "record", "namespace": "io.tidegate.events", "name": "Gone", "fields": []}',
            "the schema of io.tidegate.events.Gone",
            id="an event that does not exist",
        ),
    ],
)
def test_a_schema_of_another_system_is_refused(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        writer_from(text)


def test_no_schema_is_frozen_for_a_version_that_the_package_does_not_have_yet() -> None:
    def number(version: str) -> list[int]:
        return [int(part) for part in version.split(".")[:3]]

    frozen = {version for version, _ in previous_texts()}

    assert max(map(number, frozen), default=[]) <= number(package_version("tidegate"))
