"""A reader compiled from an event's schema and model: facts of this version, read in one pass.

It is what fastavro and pydantic do together, at a third of their cost, and only for what is as it
should be. Whatever else it meets (a damaged body, a value beyond a limit, an id that is not the
content's, an encoding that Avro allows and no writer uses) it leaves to them: they decide, and name
the fault. So it refuses nothing, and accepts only what they accept, with the same result; the
property tests in `tests/events/test_compiled.py` hold it to that.

The source is made as `dataclasses` makes its own: a line or a few for every field of the schema, in
its order. The limits are those of the model's fields; rules over several fields are the model's own
validators, called as they are.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, Final, TypeGuard, Union, get_args, get_origin

from annotated_types import Ge, Lt, MaxLen, MinLen
from pydantic import AwareDatetime, BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from tidegate.events.assembled import put_extra, put_fields, put_names, put_private
from tidegate.events.base import Event, Fact
from tidegate.events.compiled_values import Times, Valid, moment_at, number_at
from tidegate.events.identity import id_of

Read = Callable[[bytes, int], Event | None]
"""Reads the body that begins at an index of a value; None: let the general way decide."""
Json = Any
Hint = Any
"""The type of a field, as it is annotated."""
_LARGEST: Final = 2**63


_ID_RULE: Final = "_set_id"
"""The rule that every event has. Under another name it would be applied, and change nothing."""


class _UnsupportedError(Exception):
    """The schema or the model has something that only the general way can read."""


def compile_reader(model: type[Event], schema: Json) -> Read | None:
    """Compile the reader of a fact's bodies; None where only the general way can read them.

    Args:
        model: The event. Of other kinds than facts the id is not the content's, so its form would
            have to be checked besides.
        schema: The parsed Avro schema of this version.
    """
    if not issubclass(model, Fact) or not _has_a_facts_id(model):
        return None
    source = _Source()
    try:
        source.body(model, schema)
    except _UnsupportedError:
        return None
    names = source.names
    exec("\n".join(source.lines), names)  # noqa: S102 - made here, of our own schemas alone
    return names["read"]  # type: ignore[no-any-return]


class _Source:
    """The lines of a reader, and the names that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "number": number_at,
            "moment": moment_at,
            "times": Times(),
            "new": object.__new__,
            "put_fields": put_fields,
            "put_names": put_names,
            "put_extra": put_extra,
            "put_private": put_private,
            "id_of": id_of,
            "delta": timedelta,
        }
        self._indent = 0
        self._count = 0

    def body(self, model: type[Event], schema: Json) -> None:
        """The function `read`."""
        self._add("def read(b, i):")
        self._indent = 1
        self._add("try:")
        self._indent = 2
        event, values = self._record(model, schema)
        self._add("if i != len(b): return None")
        parts = (self._id_part(model, event, values, name) for name in model.identified_by)
        text = "\\x1f".join((model.__name__, *parts))
        self._add(f'if id_of(f"{text}") != {values["event_id"]}: return None')
        for rule in _rules(model):
            self._add(f"{self._name('rule', rule)}({event})")
        self._add(f"return {event}")
        self._indent = 1
        self._add("except (ValueError, IndexError, OverflowError): return None")

    @staticmethod
    def _id_part(model: type[BaseModel], event: str, values: Mapping[str, str], name: str) -> str:
        """What `derived_id` joins of a field or a property, as a part of an f-string."""
        value = values.get(name, f"{event}.{name}")
        if name in values and get_origin(model.model_fields[name].annotation) is None:
            return f"{{{value}}}"  # it is never None
        return f"{{'' if (part := {value}) is None else part}}"

    def _record(self, model: type[BaseModel], schema: Json) -> tuple[str, Mapping[str, str]]:
        """A record as an instance of its model, without the rules over several fields.

        Returns:
            Its variable, and by field that of the value.
        """
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        if list(fields) != list(model.model_fields):
            raise _UnsupportedError
        values: dict[str, str] = {}
        for name, kind in fields.items():
            info = model.model_fields[name]
            metadata = [] if issubclass(model, Event) and name == "event_id" else info.metadata
            values[name] = self._value(kind, info.annotation, metadata)
        made, known = self._variable(), ", ".join(f"{n!r}: {v}" for n, v in values.items())
        self._add(f"{made} = new({self._name('model', model)})")
        self._add(f"put_fields({made}, {{{known}}})")
        # shared: it has every field, so nothing can add to it, and a frozen model removes nothing
        self._add(f"put_names({made}, {self._name('names', set(fields))})")
        self._add(f"put_extra({made}, None)")
        self._add(f"put_private({made}, None)")
        return made, values

    def _value(  # noqa: PLR0911 - one for each kind of type
        self, kind: Json, annotation: Hint, metadata: list[Any]
    ) -> str:
        """The lines that read and check a value; the variable that has it then."""
        annotation, metadata = _plain(annotation, metadata)
        match kind:
            case ["null", other]:
                return self._optional(other, annotation, metadata)
            case "string":
                return self._text(annotation, metadata)
            case "long":
                return self._long(annotation, metadata)
            case "boolean" if annotation is bool and not metadata:
                return self._boolean()
            case {"type": "long", "logicalType": "timestamp-micros"}:
                return self._time(annotation, metadata)
            case {"type": "enum"}:
                return self._enum(kind, annotation, metadata)
            case {"type": "array"}:
                return self._tuple(kind["items"], annotation, metadata)
            case {"type": "record"} if _is_model(annotation) and not metadata:
                if list(_rules(annotation)):
                    raise _UnsupportedError
                return self._record(annotation, kind)[0]
            case _:
                raise _UnsupportedError

    def _optional(self, kind: Json, annotation: Hint, metadata: list[Any]) -> str:
        parts = get_args(annotation)
        if get_origin(annotation) not in {Union, types.UnionType} or metadata or len(parts) != 2:  # noqa: PLR2004 - itself and None
            raise _UnsupportedError
        (inner,) = (part for part in parts if part is not type(None))
        made, branch = self._variable(), self._byte()
        self._add(f"if {branch} == 0: {made} = None")
        self._add(f"elif {branch} == 2:")
        self._indent += 1
        self._add(f"{made} = {self._value(kind, inner, [])}")
        self._indent -= 1
        self._add("else: return None")
        return made

    def _text(self, annotation: Hint, metadata: list[Any]) -> str:
        if annotation is not str:
            raise _UnsupportedError
        made, length = self._variable(), self._byte()
        self._add(f"if {length} & 0x81:")  # of more bytes, or negative
        self._add(f"    {length}, i = number(b, i - 1)")
        self._add(f"    if {length} & 1: return None")
        self._add(f"i = (j := i) + ({length} >> 1)")
        patterns = [rule.pattern for rule in metadata if hasattr(rule, "pattern")]
        if all(isinstance(rule, MinLen | MaxLen) for rule in metadata):
            self._add(f"{made} = b[j:i].decode()")  # cut off: `i` lies behind the end, see `body`
            self._check_length(made, metadata)
        elif len(patterns) == len(metadata) == 1:
            self._add(f"{made} = b[j:i].decode()")
            match = self._name("match", re.compile(patterns[0]).fullmatch)
            self._add(f"if not {match}({made}): return None")
        else:  # a function of ours checks it, which may also give another spelling
            adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, *metadata])
            self._add(f"{made} = {self._name('valid', Valid(adapter))}[b[j:i]]")
        return made

    def _long(self, annotation: Hint, metadata: list[Any]) -> str:
        if annotation is not int or set(metadata) != {Ge(0), Lt(_LARGEST)}:
            raise _UnsupportedError
        made = self._byte()
        self._add(f"if {made} & 0x81:")  # of more bytes, or negative
        self._indent += 1
        self._longer(made)
        self._indent -= 1
        self._add(f"{made} >>= 1")
        return made

    def _boolean(self) -> str:
        made = self._byte()
        self._add(f"if {made} > 1: return None")
        self._add(f"{made} = {made} == 1")
        return made

    def _time(self, annotation: Hint, metadata: list[Any]) -> str:
        if annotation is not AwareDatetime or metadata:
            raise _UnsupportedError
        made, low = self._variable(), self._variable()
        # eight bytes: the bits of the first four, and when the span of the others began
        self._add("m, n, o, p = b[i:i + 4]")
        self._add("if m & n & o & p & 0x80:")
        self._add(f"    {low} = m + (n << 7) + (o << 14) + (p << 21) - 0x10204080")
        self._add(f"    if {low} & 1: return None")  # before 1970
        self._add(f"    {made} = times[b[i + 4:i + 8]] + delta(0, 0, {low} >> 1)")
        self._add("    i += 8")
        self._add(f"else: {made}, i = moment(b, i)")
        return made

    def _enum(self, kind: Json, annotation: Hint, metadata: list[Any]) -> str:
        if not isinstance(annotation, type) or not issubclass(annotation, StrEnum) or metadata:
            raise _UnsupportedError
        # each number takes two codes in zigzag order, of which the odd one is negative
        by_code = {2 * number: annotation(name) for number, name in enumerate(kind["symbols"])}
        made, members = self._variable(), self._name("members", by_code)
        self._add(f"{made} = {members}.get({self._byte()})")
        self._add(f"if {made} is None: return None")
        return made

    def _tuple(self, kind: Json, annotation: Hint, metadata: list[Any]) -> str:
        origin: object = get_origin(annotation)
        parts = get_args(annotation)
        if origin is not tuple or parts[1:] != (...,):
            raise _UnsupportedError
        made, count = self._variable(), self._variable()
        limits = [rule.max_length for rule in metadata if isinstance(rule, MaxLen)]
        if len(limits) != 1 or not all(isinstance(rule, MinLen | MaxLen) for rule in metadata):
            raise _UnsupportedError
        self._add(f"{made} = []")
        self._add("while True:")
        self._indent += 1
        self._add(f"{count} = {self._zigzag()}")
        self._add(f"if not {count}: break")
        # a negative count has the block's size behind it
        # and an array may have any number of blocks
        self._add(f"if {count} & 1 or ({count} >> 1) + len({made}) > {limits[0]}: return None")
        self._add(f"for _ in range({count} >> 1):")
        self._indent += 1
        self._add(f"{made}.append({self._value(kind, parts[0], [])})")
        self._indent -= 2
        self._check_length(made, metadata)
        self._add(f"{made} = tuple({made})")
        return made

    def _check_length(self, made: str, metadata: list[Any]) -> None:
        for rule in metadata:
            beyond = f"< {rule.min_length}" if isinstance(rule, MinLen) else f"> {rule.max_length}"
            self._add(f"if len({made}) {beyond}: return None")

    def _longer(self, made: str) -> None:
        """The lines that read the rest of a number which may be negative; most are short."""
        self._add("n = b[i]; i += 1")
        self._add(f"if {made} & 1: return None")  # whatever follows
        self._add(f"{made} += (n << 7) - 0x80")
        self._add("if n > 127:")
        self._add("    n = b[i]; i += 1")
        self._add(f"    {made} += (n << 14) - 0x4000")
        self._add("    if n > 127:")
        self._add("        n = b[i]; i += 1")
        self._add(f"        {made} += (n << 21) - 0x200000")
        self._add(f"        if n > 127: {made}, i = number(b, i - 4)")

    def _zigzag(self) -> str:
        """A number in zigzag order; most have one byte."""
        made = self._byte()
        self._add(f"if {made} > 127: {made}, i = number(b, i - 1)")
        return made

    def _byte(self) -> str:
        made = self._variable()
        self._add(f"{made} = b[i]; i += 1")
        return made

    def _variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _name(self, stem: str, value: object) -> str:
        """A name for an object that the reader uses."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def _add(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)


def _plain(annotation: Hint, metadata: list[Any]) -> tuple[Hint, list[Any]]:
    """A type without its annotations, and these."""
    origin: object = get_origin(annotation)
    if origin is not Annotated:
        return annotation, metadata
    kind, *more = get_args(annotation)
    unpacked = chain.from_iterable(
        rule.metadata if isinstance(rule, FieldInfo) else [rule] for rule in more
    )
    return _plain(kind, [*unpacked, *metadata])


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _rules(model: type[BaseModel]) -> Iterator[Callable[[Any], Any]]:
    """The model's rules over several fields, but for that of the id, which the reader has.

    Raises:
        _UnsupportedError: it has rules that are applied before its fields are known.
    """
    found = model.__pydantic_decorators__
    if found.field_validators or found.validators or found.root_validators:
        raise _UnsupportedError
    for name, validator in found.model_validators.items():
        if validator.info.mode != "after":
            raise _UnsupportedError
        if name != _ID_RULE:
            yield validator.func


def _has_a_facts_id(model: type[Fact]) -> bool:
    """Whether its id is derived and checked as that of any fact."""
    return model.checked_id is Fact.checked_id and model.content_id is Event.content_id
