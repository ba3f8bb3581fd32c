"""The message of Hudi's commit callbacks, over Kafka and HTTP alike.

It is sent without waiting for an answer, so it may be lost, and anybody can send one: it is taken
for a hint to look at a table's timeline, never for the commit itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tidegate.errors import FormatError

MAX_BYTES: Final = 32 * 1024 * 1024
"""A message has a statistic for every file that the commit wrote."""
_LONGEST: Final = 4_096


@dataclass(frozen=True, slots=True)
class Callback:
    """The table's directory and the instant, as the writer names them (HoodieWriteCommitCallback).

    The message's other fields are not used: of the two that are Optional in Hudi 1.2 the values are
    lost on the way, and the timeline has all of them.
    """

    location: str
    instant: str


def parse_callback(content: bytes) -> Callback:
    """Read a message.

    Raises:
        FormatError: it is not one of Hudi's.
    """
    if len(content) > MAX_BYTES:
        raise FormatError(f"a callback of {len(content)} bytes; at most {MAX_BYTES} are read")
    try:
        read = json.loads(content)
        location, instant = read["basePath"], read["commitTime"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise FormatError(
            "not a message of Hudi's commit callback: it is JSON with commitTime and basePath"
        ) from error
    for each in (location, instant):
        if not isinstance(each, str) or not 0 < len(each) <= _LONGEST:
            raise FormatError("commitTime and basePath of a commit callback are text")
    return Callback(location, instant)
