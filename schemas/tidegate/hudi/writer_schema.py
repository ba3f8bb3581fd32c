"""The schema in a container's header: others wrote it, so it is checked before data are read by it.

Avro data are as harmless as their schema. A record that contains itself lets data nest without
end, an array of nothing lets one byte stand for a billion items, and a few records that contain
each other twice expand without end. Hudi's own schemas do none of that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidegate.errors import FormatError

MAX_TEXT: Final = 256 * 1024
_MAX_DEPTH: Final = 32
_MAX_VALUES: Final = 10_000
_MAX_VALUES_A_BYTE: Final = 16

_SIZES: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
_NAMED: Final = frozenset({"record", "enum", "fixed"})


class _Cost(NamedTuple):
    """The fewest bytes that a value takes, and the most values that it expands to."""

    size: int
    values: int


def read_schema(text: bytes) -> Any:  # noqa: ANN401 - as fastavro takes it
    """Read a writer's schema, without logical types.

    Raises:
        FormatError: it is not a schema, or data written by it could exhaust this process.
    """
    if len(text) > MAX_TEXT:
        raise FormatError(f"the Avro schema has more than {MAX_TEXT} bytes")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the Avro schema is not JSON: {error}") from error
    checked, _ = _Check().type_of(schema, "", 0)
    return checked


@dataclass(slots=True)
class _Check:
    known: dict[str, _Cost] = field(default_factory=dict[str, _Cost])

    def type_of(self, schema: object, namespace: str, depth: int) -> tuple[object, _Cost]:
        """Check a type; give it without logical types, and its cost."""
        if depth > _MAX_DEPTH:
            raise FormatError(f"the Avro schema is nested deeper than {_MAX_DEPTH} levels")
        if isinstance(schema, str):
            return schema, self._cost_of(schema, namespace)
        if isinstance(schema, list):
            branches = [self.type_of(each, namespace, depth + 1) for each in schema]
            costs = [cost for _, cost in branches] or [_Cost(0, 0)]
            size, values = min(c.size for c in costs), max(c.values for c in costs)
            return [branch for branch, _ in branches], _Cost(1 + size, values)
        if not isinstance(schema, dict):
            raise FormatError("the Avro schema has a type that is neither name, list nor object")
        return self._object(schema, namespace, depth)

    def _cost_of(self, name: str, namespace: str) -> _Cost:
        if name in _SIZES:
            return _Cost(_SIZES[name], 1)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        cost = self.known.get(full) or self.known.get(name)
        if cost is None:
            # a record is known only once all of its fields are: so it can't contain itself
            raise FormatError(f"the Avro schema uses {name[:80]} before its end or without it")
        return cost

    def _object(
        self, schema: Mapping[str, Any], namespace: str, depth: int
    ) -> tuple[object, _Cost]:
        kind = schema.get("type")
        plain = {key: value for key, value in schema.items() if key != "logicalType"}
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            plain[inner], item = self.type_of(schema.get(inner), namespace, depth + 1)
            # the key of a map takes a byte at least
            size = item.size + (kind == "map")
            if item.values > _MAX_VALUES_A_BYTE * size:
                raise FormatError(f"the Avro schema has a {kind} whose items take too few bytes")
            return plain, _Cost(1, 1)
        if kind in _NAMED:
            return self._named(plain, namespace, depth)
        if isinstance(kind, str) and kind in _SIZES:
            return plain, _Cost(_SIZES[kind], 1)
        return self.type_of(kind, namespace, depth + 1)

    def _named(self, schema: dict[str, Any], namespace: str, depth: int) -> tuple[object, _Cost]:
        name, own = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise FormatError("the Avro schema has a type without a name")
        full = name if "." in name or not own else f"{own}.{name}"
        cost = _Cost(1, 1)
        if schema["type"] == "record":
            schema["fields"], cost = self._fields(schema.get("fields"), full, depth)
        elif schema["type"] == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 0:
                raise FormatError("the Avro schema has a fixed type without a size")
            cost = _Cost(size, 1)
        self.known[full] = cost
        return schema, cost

    def _fields(
        self, fields: object, record: str, depth: int
    ) -> tuple[list[dict[str, Any]], _Cost]:
        if not isinstance(fields, list):
            raise FormatError("the Avro schema has a record without fields")
        size, values, checked = 0, 1, list[dict[str, Any]]()
        for each in fields:
            if not isinstance(each, dict):
                raise FormatError("the Avro schema has a field that is not an object")
            inner, cost = self.type_of(each.get("type"), record.rpartition(".")[0], depth + 1)
            size, values = size + cost.size, values + cost.values
            if values > _MAX_VALUES:
                raise FormatError(f"an Avro record expands to more than {_MAX_VALUES} values")
            checked.append({**each, "type": inner})
        return checked, _Cost(size, values)
