"""Read the files that a commit wrote from its JSON, in pieces, and only the needed fields.

JSON takes a kilobyte per file. Parsing all of it at once needs both text and bytes, and an object
for every file: 250 MB for a commit of 100,000 files. JSON in any other form than Hudi's is left to
`parse_json`, which accepts it or raises an error.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from typing import Any, Final, NamedTuple

from tidegate.bounded_json import parse_json
from tidegate.errors import FormatError
from tidegate.hudi.write_stats import STATS, WriteStat, write_stat

_WINDOW: Final = 2**20
_MAX_VALUE: Final = _WINDOW
"""Characters of one file's stat; a larger one is not read in pieces."""
_MAX_REST: Final = 16 * _WINDOW
"""Bytes behind the stats: the schema, and the file groups that were replaced."""
_FEW: Final = 2_000
_SHORTEST: Final = 100
"""Bytes of a partition or stat, on average: Hudi's have more, and shorter ones fill memory."""
_SPACE: Final = " \t\n\r"
_OPEN_AND_SPACE: Final = frozenset(b"{ \t\n\r")


class JsonStats(NamedTuple):
    """The content of a commit."""

    writes: list[WriteStat]
    """The stats with a path."""
    partitions: list[str]
    """All partitions that the stats name."""
    rest: dict[str, Any]
    """The record without its stats."""


def read_json_stats(content: bytes, *, planned: bool = False) -> JsonStats | None:
    """Read the JSON of a commit that begins with its stats; None for any other content.

    Args:
        content: The file.
        planned: Whether it is of a pending write, whose stats have no path yet. All of them count.

    Raises:
        FormatError: its stats are more and shorter than those of Hudi.
    """
    if not content or content[0] not in _OPEN_AND_SPACE or content[1:2] == b"\0":  # UTF-16
        return None
    try:
        return _read(_Text(content), _FEW + len(content) // _SHORTEST, planned=planned)
    except FormatError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


class _Text:
    """A text that is decoded from bytes piece by piece."""

    def __init__(self, content: bytes) -> None:
        self._content, self._next = content, 0
        self._decode = getincrementaldecoder("utf-8")("surrogatepass").decode
        self._text, self._at = "", 0
        self._scan = json.JSONDecoder().raw_decode

    def sign(self) -> str:
        """Skip white space, and take the next character."""
        while True:
            while self._at < len(self._text):
                found = self._text[self._at]
                self._at += 1
                if found not in _SPACE:
                    return found
            if not self._more():
                raise ValueError("the text ends early")

    def value(self) -> Any:  # noqa: ANN401 - JSON
        """Take an object, a list or a string, whose first character is already taken."""
        self._at -= 1
        while True:
            try:
                found, self._at = self._scan(self._text, self._at)
            except ValueError:
                # the value may continue in the next piece
                if len(self._text) - self._at > _MAX_VALUE or not self._more():
                    raise
            else:
                return found

    def rest(self) -> str:
        """The remaining text."""
        if len(self._content) - self._next > _MAX_REST:
            raise ValueError("too much follows")
        while self._more():
            pass
        return self._text[self._at :]

    def _more(self) -> bool:
        if self._next >= len(self._content):
            return False
        piece = self._content[self._next : self._next + _WINDOW]
        self._next += _WINDOW
        decoded = self._decode(piece, self._next >= len(self._content))
        self._text, self._at = self._text[self._at :] + decoded, 0
        return True


def _read(text: _Text, limit: int, *, planned: bool) -> JsonStats | None:
    _expect(text, "{")
    _expect(text, '"')
    if text.value() != STATS:
        return None
    _expect(text, ":")
    _expect(text, "{")
    writes: list[WriteStat] = []
    partitions: dict[str, None] = {}
    known: dict[str | None, str | None] = {}  # many files share few previous commits
    sign = text.sign()
    while sign != "}":
        if sign != '"' or (partition := text.value()) in partitions:
            return None
        partitions[partition] = None
        limit = _one_more(limit)
        _expect(text, ":")
        _expect(text, "[")
        sign = text.sign()
        while sign != "]":
            stat = text.value()
            limit = _one_more(limit)
            if planned:
                stat["path"] = ""
            if planned or stat.get("path"):
                made = write_stat(partition, stat)
                writes.append(
                    made._replace(previous=known.setdefault(made.previous, made.previous))
                )
            sign = _next(text, "]")
        sign = _next(text, "}")
    rest = _rest(text)
    return None if STATS in rest else JsonStats(writes, list(partitions), rest)


def _one_more(limit: int) -> int:
    if limit == 0:
        raise FormatError("commit metadata has more and shorter stats than Hudi writes")
    return limit - 1


def _rest(text: _Text) -> dict[str, Any]:
    sign = text.sign()
    if sign == "}":
        following = "}" + text.rest()
    elif sign != "," or not (following := text.rest()).lstrip(_SPACE).startswith('"'):
        raise ValueError(sign)
    try:
        found: dict[str, Any] = parse_json("{" + following, "the rest", _MAX_REST)
    except FormatError as error:
        raise LookupError(error) from error  # parsing all of it finds the right place
    return found


def _expect(text: _Text, wanted: str) -> None:
    if (found := text.sign()) != wanted:
        raise ValueError(f"{found} instead of {wanted}")


def _next(text: _Text, end: str) -> str:
    """The first character of the next item, or `end`."""
    if (sign := text.sign()) == end:
        return end
    if sign != "," or (sign := text.sign()) == end:
        raise ValueError(sign)
    return sign
