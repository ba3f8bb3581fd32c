"""Check a writer's schema before any data are read with it.

A hostile schema makes Avro data dangerous. With a record that contains itself, data can nest until
the C stack overflows. With an array of items that take no bytes, one byte can stand for a billion
items. A few records that contain each other twice expand without end. Tidegate's and Hudi's schemas
do none of that, but any user who may register a schema, or write to a table's directory, can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidegate.errors import FormatError

Json = Any
_SIZES: Final[Mapping[str, int]] = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """The limits of a schema."""

    length: int
    """Maximum length of its text, in characters or bytes."""
    depth: int
    """Maximum depth of its JSON; a type has up to three levels."""
    types: int
    """Maximum of types in a record, with named types expanded at every use."""
    values_a_byte: int = 16
    """Maximum of values per byte of an item of an array or a map."""
    fixed_bytes: int = 1_024
    """Maximum size of a fixed, in bytes."""
    logical_types: frozenset[str] | None = None
    """Supported logical types; any other is refused. None: all are read as the plain type."""


class _Cost(NamedTuple):
    """The cost of a type: minimum bytes of a value, maximum values in it, and types in it."""

    size: int
    values: int
    types: int


def read_schema(text: str | bytes, limits: SchemaLimits) -> Json:
    """Parse and check a schema; removes logical types if the limits require it.

    Raises:
        FormatError: it is not a schema, or data written with it could exhaust this process.
    """
    if len(text) > limits.length:
        raise FormatError(f"an Avro schema of length {len(text)}; the limit is {limits.length}")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not an Avro schema: {error!r:.{_SHOWN}}") from error
    _check_depth(schema, limits.depth)
    checked, _ = _Check(limits).type_of(schema, "")
    return checked


def _check_depth(schema: Json, limit: int) -> None:
    level = [schema]
    for _ in range(limit):
        level = [child for part in level for child in _children(part)]
    if level:
        raise FormatError(f"an Avro schema nested deeper than {limit} levels")


def _children(part: Json) -> list[Json]:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [child for child in inner if isinstance(child, dict | list)]


@dataclass(slots=True)
class _Check:
    """Walks a schema of limited depth. `known` has the costs of named types."""

    limits: SchemaLimits
    known: dict[str, _Cost] = field(default_factory=dict[str, _Cost])

    def type_of(self, schema: Json, namespace: str) -> tuple[Json, _Cost]:
        """Check a type; return the type to read with, and its cost."""
        if isinstance(schema, str):
            return schema, self._reference(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, dict):
            return self._object(schema, namespace)
        raise FormatError("not an Avro schema: a type that is neither name, list nor object")

    def _reference(self, name: str, namespace: str) -> _Cost:
        if name in _SIZES:
            return _Cost(_SIZES[name], 1, 1)
        cost = self.known.get(_full_name(name, namespace)) or self.known.get(name)
        if cost is None:  # a record is known only after its last field, so it can't contain itself
            raise FormatError(
                f"not an Avro schema: the type {name:.{_SHOWN}} is recursive or unknown"
            )
        return cost

    def _union(self, branches: list[Json], namespace: str) -> tuple[Json, _Cost]:
        checked = [self.type_of(branch, namespace) for branch in branches]
        costs = [cost for _, cost in checked] or [_Cost(0, 0, 0)]
        cost = self._limited(
            # one byte for the index of the branch
            1 + min(cost.size for cost in costs),
            max(cost.values for cost in costs),
            1 + sum(cost.types for cost in costs),
        )
        return [branch for branch, _ in checked], cost

    def _object(self, schema: dict[str, Json], namespace: str) -> tuple[Json, _Cost]:
        schema = self._without_logical_type(schema)
        match schema.get("type"):
            case "array":
                return self._collection(schema, "items", 0, namespace)
            case "map":  # a key takes at least one byte
                return self._collection(schema, "values", 1, namespace)
            case "record" | "error":
                return self._record(schema, namespace)
            case "enum" | "fixed" as kind:
                size = self._fixed(schema) if kind == "fixed" else 1
                return schema, self._define(schema, namespace, _Cost(size, 1, 1))
            case str() as name if name in _SIZES:
                return schema, _Cost(_SIZES[name], 1, 1)
            case inner:
                return self.type_of(inner, namespace)

    def _without_logical_type(self, schema: dict[str, Json]) -> dict[str, Json]:
        if "logicalType" not in schema:
            return dict(schema)
        allowed, logical = self.limits.logical_types, schema["logicalType"]
        if allowed is None:
            return {key: value for key, value in schema.items() if key != "logicalType"}
        if not isinstance(logical, str) or logical not in allowed:
            raise FormatError(f"the logical type {logical!s:.{_SHOWN}} is not supported")
        return dict(schema)

    def _collection(
        self, schema: dict[str, Json], inner: str, key_bytes: int, namespace: str
    ) -> tuple[Json, _Cost]:
        schema[inner], item = self.type_of(schema.get(inner), namespace)
        if item.values > self.limits.values_a_byte * (item.size + key_bytes):
            raise FormatError(f"the Avro schema has a {schema['type']} of items of too few bytes")
        return schema, self._limited(1, 1, 1 + item.types)

    def _fixed(self, schema: Mapping[str, Json]) -> int:
        size = schema.get("size")
        if not isinstance(size, int) or not 0 <= size <= self.limits.fixed_bytes:
            raise FormatError(f"a fixed of more than {self.limits.fixed_bytes} bytes")
        return size

    def _record(self, schema: dict[str, Json], outer: str) -> tuple[Json, _Cost]:
        namespace = _name_of(schema, outer).rpartition(".")[0]
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(entry, dict) for entry in fields):
            raise FormatError("not an Avro schema: a record without a list of fields")
        checked, cost = list[Json](), _Cost(0, 1, 1)
        for entry in fields:
            kind, more = self.type_of(entry.get("type"), namespace)
            checked.append({**entry, "type": kind})
            cost = self._limited(*(mine + its for mine, its in zip(cost, more, strict=True)))
        return schema | {"fields": checked}, self._define(schema, outer, cost)

    def _define(self, schema: Mapping[str, Json], outer: str, cost: _Cost) -> _Cost:
        self.known[_name_of(schema, outer)] = cost
        return cost

    def _limited(self, size: int, values: int, types: int) -> _Cost:
        if types > self.limits.types:
            raise FormatError(f"an Avro schema of more than {self.limits.types} types")
        return _Cost(size, values, types)


def _name_of(schema: Mapping[str, Json], outer: str) -> str:
    name, namespace = schema.get("name"), schema.get("namespace", outer)
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise FormatError("not an Avro schema: a named type without a name")
    return _full_name(name, namespace)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
