"""The message of Hudi's commit callbacks over HTTP.

It is sent without waiting for an answer, so it may be lost, and anybody can send one: it is taken
for a hint to poll a table's timeline, never for the commit itself.
"""

from __future__ import annotations

import json
import re
from typing import Final

from tidegate.errors import FormatError

MAX_BYTES: Final = 32 * 1024 * 1024
"""A message has a statistic for every file that the commit wrote."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""So much of a message is read: Hudi writes the directory before the statistics."""
_LONGEST: Final = 4_096
_TEXT: Final = r'"(?:[^"\\]|\\.)*+"'
_FIELD: Final = rf"\s*(?P<name>{_TEXT})\s*:\s*(?P<value>{_TEXT}|null|true|false|-?[0-9.]{{1,40}})"
_OPENING: Final = re.compile(r"\s*\{" + _FIELD)
_NEXT: Final = re.compile(r"\s*," + _FIELD)


def callback_location(head: bytes) -> str:
    """The table's directory, as the writer names it (HoodieWriteCommitCallback).

    Reads a message, or the first MAX_HEAD_BYTES of a longer one. The other fields are not used: of
    the two that are Optional in Hudi 1.2 the values are lost on the way, and the timeline has all
    of them.

    Raises:
        FormatError: it is not one of Hudi's.
    """
    try:
        location = _first_fields(head.decode("utf-8", "ignore")).get("basePath")
    except ValueError:
        location = None
    if not isinstance(location, str) or not 0 < len(location) <= _LONGEST:
        raise FormatError(
            "not a message of Hudi's commit callback: that is a JSON object with the table's"
            ' directory as text, {"basePath": "/lake/orders"}, before any object or list in it'
        )
    return location


def _first_fields(text: str) -> dict[object, object]:
    """The fields of an object up to the first one that is an object or a list."""
    found: dict[object, object] = {}
    at, following = 0, _OPENING
    while (field := following.match(text, at)) is not None:
        found[json.loads(field["name"])] = json.loads(field["value"])
        at, following = field.end(), _NEXT
    return found
