"""Limits for schemas that others wrote, checked before fastavro sees them.

Messages are decoded with the schema of their writer, which a schema registry supplies. Whoever may
register schemas could otherwise crash a service (a recursive record exhausts the C stack) or keep
it busy for ever (an array of items that take no bytes). Tidegate's own schemas are far below all
limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tidegate.errors import FormatError

MAX_SCHEMA_CHARS: Final = 200_000
MAX_DEPTH: Final = 40
"""Of the JSON; the deepest schema of ours has 12 levels."""
MAX_TYPES: Final = 2_000
"""Number of types in a schema once named types are expanded where they are used."""
MAX_FIXED_BYTES: Final = 1_024

_EMPTY: Final = 0
_LOGICAL: Final = frozenset({None, "timestamp-micros", "timestamp-millis", "date", "uuid"})
_PRIMITIVE_BYTES: Final = {
    "null": _EMPTY,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
Json = Any


def load_schema(text: str) -> Json:
    """Parse a schema's JSON and check it against the limits.

    Raises:
        FormatError: it is not JSON, or it exceeds a limit.
    """
    if len(text) > MAX_SCHEMA_CHARS:
        raise FormatError(f"a schema of {len(text)} characters; the limit is {MAX_SCHEMA_CHARS}")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not an Avro schema: {error!r}") from error
    if next(_deeper_than_allowed(schema), None) is not None:
        raise FormatError(f"a schema nested deeper than {MAX_DEPTH} levels")
    _Checker().check(schema, "")
    return schema


def _deeper_than_allowed(schema: Json) -> Iterator[Json]:
    level = [schema]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
    yield from level


def _children(part: Json) -> list[Json]:
    if isinstance(part, dict):
        return [each for each in part.values() if isinstance(each, dict | list)]
    return [each for each in part if isinstance(each, dict | list)] if part else []


class _Checker:
    """Walks a schema. Its depth is known to be limited; named types are remembered by name."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int]] = {}
        """Of each named type: the number of types in it, and the fewest bytes of a value."""

    def check(self, schema: Json, namespace: str) -> tuple[int, int]:
        """Give the number of types and the fewest bytes that a value takes.

        Raises:
            FormatError: a limit is exceeded.
        """
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, dict):
            return self._complex(schema, namespace)
        return self._reference(str(schema), namespace)

    def _union(self, branches: list[Json], namespace: str) -> tuple[int, int]:
        sizes = [self.check(each, namespace) for each in branches]
        # one byte for the number of the branch
        return _limited(1 + sum(types for types, _ in sizes)), 1

    def _reference(self, name: str, namespace: str) -> tuple[int, int]:
        if name in _PRIMITIVE_BYTES:
            return 1, _PRIMITIVE_BYTES[name]
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:  # a record is only known after its last field
            raise FormatError(f"not an Avro schema: the type {name:.200} is recursive or unknown")
        return found

    def _complex(self, schema: dict[str, Json], namespace: str) -> tuple[int, int]:
        if schema.get("logicalType") not in _LOGICAL:
            raise FormatError(f"the logical type {schema['logicalType']!s:.200} is not supported")
        match schema.get("type"):
            case "array":
                types, item_bytes = self.check(schema.get("items"), namespace)
                if item_bytes == _EMPTY:
                    raise FormatError("an array of items that take no bytes")
                return _limited(1 + types), 1
            case "map":
                types, _ = self.check(schema.get("values"), namespace)
                return _limited(1 + types), 1
            case "record" | "error" | "enum" | "fixed":
                return self._definition(schema, namespace)
            case inner:
                return self.check(inner, namespace)

    def _definition(self, schema: dict[str, Json], outer: str) -> tuple[int, int]:
        name = _full_name(str(schema.get("name")), str(schema.get("namespace", outer)))
        match schema["type"]:
            case "enum":
                size = (1, 1)
            case "fixed":
                fixed = schema.get("size")
                if not isinstance(fixed, int) or not 0 <= fixed <= MAX_FIXED_BYTES:
                    raise FormatError(f"a fixed of more than {MAX_FIXED_BYTES} bytes")
                size = (1, fixed)
            case _:
                size = self._fields(schema.get("fields"), name.rpartition(".")[0])
        self._named[name] = size
        return size

    def _fields(self, fields: Json, namespace: str) -> tuple[int, int]:
        if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
            raise FormatError("not an Avro schema: a record without a list of fields")
        sizes = [self.check(each.get("type"), namespace) for each in fields]
        types = _limited(1 + sum(types for types, _ in sizes))
        return types, sum(fewest for _, fewest in sizes)


def _limited(types: int) -> int:
    if types > MAX_TYPES:
        raise FormatError(f"a schema of more than {MAX_TYPES} types")
    return types


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
