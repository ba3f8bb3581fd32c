"""What a new version of a schema may change: the rule is stricter than Avro's own.

Readers must read every earlier version's messages, and during an upgrade the next version's too
(FULL_TRANSITIVE in a schema registry's words). So fields may be added or removed only with a
default, and no type may change, although Avro could promote some. An enum may gain symbols,
because readers are upgraded before writers.

At a release its schemas are frozen:
`tidegate schemas export schemas/tidegate/events/previous/<version>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = Any
"""An Avro schema as JSON: a name, a union's list, or an object."""


def breaks(old: str, new: str) -> list[str]:
    """List the changes between two versions of a schema that are not allowed, as `path: what`.

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
    """What must not change: the type, a named type's full name, a logical type."""
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, str):
        return schema
    if "name" in schema:
        return f"{schema['type']} {_full_name(schema)}"
    return " ".join(str(schema[key]) for key in ("type", "logicalType") if key in schema)


def _full_name(schema: dict[str, Json]) -> str:
    namespace = schema.get("namespace")
    return f"{namespace}.{schema['name']}" if namespace else str(schema["name"])


def _resolved(schema: Json, named: dict[str, Json]) -> Json:
    """Replace references to named types by their definitions. No schema is recursive."""
    if isinstance(schema, str):
        return named.get(schema, schema)
    if isinstance(schema, list):
        return [_resolved(branch, named) for branch in schema]
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
