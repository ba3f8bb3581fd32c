"""Read the files that a commit wrote from its Avro, in one pass, and only the needed fields.

A write stat has thirty fields. fastavro makes a dictionary of them for every file, which takes a
second and 200 MB for a commit of 100,000 files. This reader skips the other fields; one regular
expression skips a run of numbers. Avro in any other form than Hudi's is left to fastavro, which
accepts it or raises an error. `tests/hudi/test_write_stats.py` compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Schema = Any
Skip = Callable[[bytes, int], int]
"""Returns the index after the value that begins at an index."""

STATS: Final = "partitionToWriteStats"
_FIRST: Final = {"fileId": "string", "path": "string", "prevCommit": "string", "numWrites": "long"}
"""The first fields of a write stat; all may be null."""
_PARTITION: Final = "partitionPath"
_SIZE: Final = "fileSizeInBytes"
FIELDS: Final = (*_FIRST, _SIZE)
"""The fields of a write stat that are read, in the order of the schema."""
_NO_COMMIT: Final = (None, "", "null")
_MORE: Final = 0x80
"""The bit of a byte that marks more bytes of the same number."""
_LONG: Final = rb"(?:[\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"
"""At most ten bytes, the tenth with one bit: 64 bits together."""
_MAX_BYTES: Final = 10
_TOO_LARGE: Final = 2**64
_FIXED_SIZES: Final = {
    "null": b"",
    "boolean": rb"[\x00\x01]",
    "int": _LONG,
    "long": _LONG,
    "float": b".{4}",
    "double": b".{8}",
}


class WriteStat(NamedTuple):
    """One file that a commit wrote.

    `path` is relative to the table and `size` is in bytes. `previous` is the instant of the file
    group's previous slice, None for a new group.
    """

    partition: str
    file_id: str
    path: str
    previous: str | None
    size: int
    records: int = 0


def write_stat(partition: str, stat: Mapping[str, Any]) -> WriteStat:
    """A write stat from the fields that JSON or fastavro returned."""
    previous = stat.get("prevCommit")
    return WriteStat(
        partition=partition,
        file_id=stat["fileId"] or "",
        path=stat["path"],
        previous=None if previous in _NO_COMMIT else previous,
        size=stat.get("fileSizeInBytes") or 0,
        records=stat.get("numWrites") or 0,
    )


class _OtherwiseError(Exception):
    """The schema or the data differ from Hudi's form."""


class StatsReader:
    """Reads the write stats of commits with a certain schema."""

    def __init__(self, before: Skip, between: Skip, after: Skip) -> None:
        """Take the skips before the partition's path, between it and the size, and after that."""
        self._before, self._between, self._after = before, between, after

    @classmethod
    def of(cls, schema: Schema) -> StatsReader | None:
        """The reader for commits of a schema; None if the schema differs from Hudi's form.

        The stats come first in a commit, in a map from partitions to arrays.
        """
        match schema:
            case {
                "type": "record",
                "fields": [
                    {
                        "name": name,
                        "type": [
                            "null",
                            {
                                "type": "map",
                                "values": {
                                    "type": "array",
                                    "items": {"type": "record", "fields": fields},
                                },
                            },
                        ],
                    },
                    *_,
                ],
            } if name == STATS:
                try:
                    return cls(*_skips(fields))
                except _OtherwiseError:
                    return None
            case _:
                return None

    def read(self, data: bytes) -> tuple[list[WriteStat], set[str], bytes] | None:
        """Read the stats of a commit.

        Returns:
            The stats with a path, all named partitions, and the data with null stats, for fastavro.
            None if fastavro has to read everything.
        """
        if not data or data[0] != 2:  # noqa: PLR2004 - the second branch of the union
            return None
        stats: list[WriteStat] = []
        named: set[str] = set()
        try:
            end = self._partitions(data, 1, stats, named)
        except (_OtherwiseError, ValueError, IndexError):
            return None
        return stats, named, b"\0" + data[end:]

    def _partitions(self, data: bytes, at: int, stats: list[WriteStat], named: set[str]) -> int:
        while True:
            count, at = _count(data, at)
            if not count:
                return at
            for _ in range(count):
                began, (partition, at) = at, _text(data, at)
                if partition in named:  # a dictionary would have only the last one
                    raise _OtherwiseError
                named.add(partition)
                # almost every stat repeats the partition
                at = self._files(data, at, (partition, b"\2" + data[began:at]), stats)

    def _files(
        self, data: bytes, at: int, partition: tuple[str, bytes], stats: list[WriteStat]
    ) -> int:
        before, between, after = self._before, self._between, self._after
        name, written = partition
        size, length, add = len(data), len(written), stats.append
        while True:
            count, at = _count(data, at)
            if not count:
                return at
            for _ in range(count):
                file_id, at = _optional_text(data, at)
                path, at = _optional_text(data, at)
                previous, at = _optional_text(data, at)
                records, at = _optional_long(data, at)
                at = before(data, at)
                if data.startswith(written, at):
                    at += length
                else:
                    _, at = _optional_text(data, at)
                file_size, at = _optional_long(data, between(data, at))
                at = after(data, at)
                if at > size:
                    raise _OtherwiseError
                if path:
                    previous = None if previous in _NO_COMMIT else previous
                    add(WriteStat(name, file_id or "", path, previous, file_size, records))


def _skips(fields: Sequence[Schema]) -> Iterator[Skip]:
    """The skips before the partition's path, between it and the size, and after that."""
    names = [field["name"] for field in fields]
    kinds = [_plain(field["type"]) for field in fields]
    first = len(_FIRST)
    if names[:first] != list(_FIRST) or not {_PARTITION, _SIZE} <= set(names):
        raise _OtherwiseError
    partition, size = names.index(_PARTITION), names.index(_SIZE)
    read = [*kinds[:first], kinds[partition], kinds[size]]
    if read != [["null", kind] for kind in (*_FIRST.values(), "string", "long")]:
        raise _OtherwiseError
    if partition > size:
        raise _OtherwiseError
    yield _skip_all(kinds[first:partition])
    yield _skip_all(kinds[partition + 1 : size])
    yield _skip_all(kinds[size + 1 :])


def _plain(schema: Schema) -> Schema:
    """A type without its annotations, such as `avro.java.string`."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if isinstance(schema, dict) and schema["type"] in {*_FIXED_SIZES, "string", "bytes"}:
        return schema["type"]
    return schema


def _skip_all(kinds: Sequence[Schema]) -> Skip:
    """A skip of values of these types, one after the other."""
    parts: list[Skip] = []
    run, with_nulls = b"", b""
    for kind in kinds:
        pattern = _pattern(kind)
        with_nulls += pattern if pattern is not None else b"\0"
        if pattern is not None:
            run += pattern
            continue
        if run:
            parts.append(_skip_matched(run))
            run = b""
        parts.append(_skip_optional(kind))
    if run:
        parts.append(_skip_matched(run))
    return _skip_either(with_nulls, parts)


def _pattern(kind: Schema) -> bytes | None:
    """A regular expression that matches a value of a type; None if there is none."""
    if isinstance(kind, str):
        return _FIXED_SIZES.get(kind)
    if isinstance(kind, list):
        patterns = [_pattern(branch) for branch in kind]
        if len(kind) > _MORE // 2 or None in patterns:
            return None
        branches = [re.escape(bytes([2 * n])) + (p or b"") for n, p in enumerate(patterns)]
        return b"(?:" + b"|".join(branches) + b")"
    if kind["type"] == "record":
        fields = [_pattern(_plain(member["type"])) for member in kind["fields"]]
        return None if None in fields else b"".join(field or b"" for field in fields)
    return None


def _skip_matched(pattern: bytes) -> Skip:
    match = re.compile(pattern, re.DOTALL).match

    def skip(data: bytes, at: int) -> int:
        found = match(data, at)
        if found is None:
            raise _OtherwiseError
        return found.end()

    return skip


def _skip_either(with_nulls: bytes, parts: Sequence[Skip]) -> Skip:
    """A skip of all parts at once if those without a pattern are null, else one by one."""
    match = re.compile(with_nulls, re.DOTALL).match
    in_turn = _skip_in_turn(parts)

    def skip(data: bytes, at: int) -> int:
        found = match(data, at)
        return in_turn(data, at) if found is None else found.end()

    return skip


def _skip_in_turn(parts: Sequence[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for part in parts:
            at = part(data, at)
        return at

    return skip


def _skip_optional(kind: Schema) -> Skip:
    """A skip of null, or of a text, array or map."""
    if not isinstance(kind, list) or kind[:1] != ["null"] or len(kind) != 2:  # noqa: PLR2004
        raise _OtherwiseError
    skip_value = _skip_value(kind[1])

    def skip(data: bytes, at: int) -> int:
        if data[at] == 0:
            return at + 1
        if data[at] != 2:  # noqa: PLR2004 - the second branch of the union
            raise _OtherwiseError
        return skip_value(data, at + 1)

    return skip


def _skip_value(kind: Schema) -> Skip:
    if kind == "string":
        return _skip_text
    match kind:
        case {"type": "array", "items": items}:
            return _skip_blocks(_skip_item(_plain(items)))
        case {"type": "map", "values": values}:
            return _skip_blocks(_skip_in_turn([_skip_text, _skip_item(_plain(values))]))
        case _:
            raise _OtherwiseError


def _skip_item(kind: Schema) -> Skip:
    if kind == "string":
        return _skip_text
    pattern = _pattern(kind)
    if not pattern:  # with items of no bytes, a few bytes could stand for any number of items
        raise _OtherwiseError
    return _skip_matched(pattern)


def _skip_blocks(skip_item: Skip) -> Skip:
    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = _count(data, at)
            if not count:
                return at
            for _ in range(count):
                at = skip_item(data, at)

    return skip


def _skip_text(data: bytes, at: int) -> int:
    return _text(data, at)[1]  # also decodes: like fastavro, refuses invalid UTF-8


def _count(data: bytes, at: int) -> tuple[int, int]:
    """The number of items in a block, and the index of the first.

    Every item has at least a byte, so the loop over them ends at the end of the data.
    """
    count, at = _long(data, at)
    if count < 0:
        # the block's size in bytes, which readers need only to skip it
        _, at = _long(data, at)
    return abs(count), at


def _optional_text(data: bytes, at: int) -> tuple[str | None, int]:
    # short texts without another call: this runs three times per file
    if data[at] == 2 and (size := data[at + 1]) < _MORE:  # noqa: PLR2004 - the second branch
        if size & 1 or (end := at + 2 + (size >> 1)) > len(data):
            raise _OtherwiseError
        return data[at + 2 : end].decode(), end
    if data[at] == 0:
        return None, at + 1
    if data[at] != 2:  # noqa: PLR2004
        raise _OtherwiseError
    return _text(data, at + 1)


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _long(data, at)
    if size < 0 or (end := at + size) > len(data):
        raise _OtherwiseError
    return data[at:end].decode(), end


def _optional_long(data: bytes, at: int) -> tuple[int, int]:
    """A number; 0 for null."""
    branch = data[at]
    if branch == 0:
        return 0, at + 1
    if branch != 2:  # noqa: PLR2004 - the second branch of the union
        raise _OtherwiseError
    return _long(data, at + 1)


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and the index after it."""
    value = data[at]
    if value >= _MORE:
        value &= 0x7F
        for place in range(1, _MAX_BYTES):
            byte = data[at + place]
            value |= (byte & 0x7F) << (7 * place)
            if byte < _MORE:
                at += place
                break
        else:
            raise _OtherwiseError
    if value >= _TOO_LARGE:
        raise _OtherwiseError
    return (value >> 1) ^ -(value & 1), at + 1
