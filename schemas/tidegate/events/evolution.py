"""What a new version of a schema may change: both neighbours must be able to read each other.

A reader of today meets bytes of every earlier version in the topics, and a writer that was
upgraded first speaks to readers that were not. So a field may only come or go with a default, and
no type changes; an enum may grow, because its readers are upgraded before its writers.

At a release its schemas are kept for good:
`tidegate schemas export schemas/tidegate/events/previous/<version>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = Any
"""An Avro schema as JSON: a name, a union's list, or an object."""


def breaks(old: str, new: str) -> list[str]:
    """Name all that is not allowed between two versions of a schema, as `path: what`.

    Args:
        old: The text of the earlier `.avsc`.
        new: The text of the later one.
    """
    was, now = json.loads(old), json.loads(new)
    return list(_changes(_full_name(was), _resolved(was, {}), _resolved(now, {})))


def _changes(path: str, old: Json, new: Json) -> Iterator[str]:
    if _kind(old) != _kind(new):
        yield f"{path}: {_kind(old)} became {_kind(new)}"
    elif isinstance(old, list):
        if len(old) != len(new):
            yield f"{path}: a union of {len(old)} types became one of {len(new)}"
        for before, after in zip(old, new, strict=False):
            yield from _changes(path, before, after)
    elif isinstance(old, dict):
        yield from _inner_changes(path, old, new)


def _inner_changes(path: str, old: dict[str, Json], new: dict[str, Json]) -> Iterator[str]:
    match old["type"]:
        case "record":
            yield from _field_changes(path, _fields(old), _fields(new))
        case "enum":
            for symbol in old["symbols"]:
                if symbol not in new["symbols"]:
                    yield f"{path}: the symbol {symbol} was removed"
        case "array":
            yield from _changes(f"{path}[]", old["items"], new["items"])
        case "map":
            yield from _changes(f"{path}{{}}", old["values"], new["values"])
        case _:
            return


def _field_changes(path: str, old: dict[str, Json], new: dict[str, Json]) -> Iterator[str]:
    for name, field in new.items():
        if name in old:
            yield from _changes(f"{path}.{name}", old[name]["type"], field["type"])
            if "default" in old[name] and "default" not in field:
                yield f"{path}.{name}: its default was removed"
        elif "default" not in field:
            yield f"{path}.{name}: a new field without a default"
    for name, field in old.items():
        if name not in new and "default" not in field:
            yield f"{path}.{name}: a field without a default was removed"


def _fields(record: dict[str, Json]) -> dict[str, Json]:
    return {field["name"]: field for field in record["fields"]}


def _kind(schema: Json) -> str:
    """What may not change: the type, the full name of a named one, and what a number means."""
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, str):
        return schema
    if "name" in schema:
        return f"{schema['type']} {_full_name(schema)}"
    return " ".join(str(schema[each]) for each in ("type", "logicalType") if each in schema)


def _full_name(schema: dict[str, Json]) -> str:
    namespace = schema.get("namespace")
    return f"{namespace}.{schema['name']}" if namespace else str(schema["name"])


def _resolved(schema: Json, named: dict[str, Json]) -> Json:
    """Put every named type where only its name stands. The schemas have no recursive types."""
    if isinstance(schema, str):
        return named.get(schema, schema)
    if isinstance(schema, list):
        return [_resolved(each, named) for each in schema]
    inner = dict(schema)
    if "fields" in schema:
        inner["fields"] = [
            {**field, "type": _resolved(field["type"], named)} for field in schema["fields"]
        ]
    for part in ("items", "values"):
        if part in schema:
            inner[part] = _resolved(schema[part], named)
    if "name" in schema:
        named[str(schema["name"])] = inner
        named[_full_name(schema)] = inner
    return inner
