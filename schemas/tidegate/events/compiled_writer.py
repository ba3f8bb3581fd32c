"""A writer compiled from an event's schema: the bytes that fastavro writes, at a third of its cost.

For each optional field fastavro tries which branch of the union the value fits; here the schema has
only ever the two branches null and something. The property tests in `tests/events/test_compiled.py`
hold it to fastavro's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from tidegate.events.base import Event

Write = Callable[[Event], bytes]
"""Writes an event's body."""
Json = Any
_MORE: Final = 0x80
"""The bit of a byte after which there are more of the number."""
_TWO_BYTES: Final = 64 * 128
_THREE_BYTES: Final = 64 * 128**2
"""The first number that needs more bytes."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class _UnsupportedError(Exception):
    """The schema has something that only fastavro can write."""


def compile_writer(schema: Json) -> Write | None:
    """Compile the writer of an event's bodies; None where only fastavro can write them.

    Args:
        schema: The parsed Avro schema of this version.
    """
    source = _Source()
    try:
        source.body(schema)
    except _UnsupportedError:
        return None
    exec("\n".join(source.lines), source.names)  # noqa: S102 - made here, of our own schemas alone
    return source.names["write"]  # type: ignore[no-any-return]


def _number(value: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte.

    Raises:
        OverflowError: it has more than 64 bits.
    """
    if _TWO_BYTES <= value < _THREE_BYTES:  # as most ids
        left = value << 1
        return bytes((left & 0x7F | _MORE, left >> 7 & 0x7F | _MORE, left >> 14))
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has more than 64 bits")
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left >= _MORE:
        out.append(left & 0x7F | _MORE)
        left >>= 7
    out.append(left)
    return bytes(out)


@lru_cache(maxsize=100)  # many events are published with the same time
def _time(at: datetime) -> bytes:
    """A time in microseconds."""
    since = at - _EPOCH
    return _number((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


_SMALL: Final = tuple(_number(number) for number in range(_TWO_BYTES))
"""The numbers of one or two bytes: lengths, and how many there are."""


class _Source:
    """The lines of a writer, and the names that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "number": _number,
            "small": _SMALL,
            "few": len(_SMALL),
            "time": _time,
        }
        self._indent = 0
        self._count = 0

    def body(self, schema: Json) -> None:
        """The function `write`."""
        self._add("def write(event):")
        self._indent = 1
        self._add("out = []")
        self._add("add = out.append")
        self._record(schema, "event")
        self._add("return b''.join(out)")

    def _record(self, schema: Json, instance: str) -> None:
        fields = self._variable()
        self._add(f"{fields} = vars({instance})")
        for field in schema["fields"]:
            value = self._variable()
            self._add(f"{value} = {fields}[{field['name']!r}]")
            self._value(field["type"], value)

    def _value(self, kind: Json, value: str) -> None:
        """The lines that write the value of a variable."""
        match kind:
            case ["null", other]:
                self._add(f"if {value} is None: add(b'\\x00')")
                self._add("else:")
                self._indent += 1
                self._add("add(b'\\x02')")
                self._value(other, value)
                self._indent -= 1
            case "string":
                self._add(f"{value} = {value}.encode()")
                self._number(f"len({value})")
                self._add(f"add({value})")
            case "long":
                self._number(value)
            case "boolean":
                self._add(f"add(b'\\x01' if {value} else b'\\x00')")
            case {"type": "long", "logicalType": "timestamp-micros"}:
                self._add(f"add(time({value}))")
            case {"type": "enum"}:
                codes = {name: _number(at) for at, name in enumerate(kind["symbols"])}
                self._add(f"add({self._name('codes', codes)}[{value}])")
            case {"type": "array"}:
                self._array(kind["items"], value)
            case {"type": "map"}:
                self._map(kind["values"], value)
            case {"type": "record"}:
                self._record(kind, value)
            case _:
                raise _UnsupportedError

    def _array(self, kind: Json, value: str) -> None:
        item = self._variable()
        self._add(f"if {value}:")
        self._indent += 1
        self._number(f"len({value})")
        self._add(f"for {item} in {value}:")
        self._indent += 1
        self._value(kind, item)
        self._indent -= 2
        self._add("add(b'\\x00')")

    def _map(self, kind: Json, value: str) -> None:
        key, item = self._variable(), self._variable()
        self._add(f"if {value}:")
        self._indent += 1
        self._number(f"len({value})")
        self._add(f"for {key}, {item} in {value}.items():")
        self._indent += 1
        self._value("string", key)
        self._value(kind, item)
        self._indent -= 2
        self._add("add(b'\\x00')")

    def _number(self, value: str) -> None:
        self._add(f"add(small[n] if 0 <= (n := {value}) < few else number(n))")

    def _variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _name(self, stem: str, value: object) -> str:
        """A name for an object that the writer uses."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def _add(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)
