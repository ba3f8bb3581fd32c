"""JSON that others wrote: parsed only where it can't become much larger in memory. Pure.

60 MB of `{},{}` become 2 GB of dictionaries. So a text is refused by what it could become, before
anything of it is parsed.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tidegate.errors import FormatError

MAX_SMALL: Final = 64 * 1024
"""Bytes of a file with a few fields: a lock, a claim, the mark of an undo."""
MAX_VALUES: Final = 2_000_000
"""Values of a text, of up to about 80 bytes each in memory."""
_MAX_COUNT: Final = 2**50
"""So the sum of thousands is still a number of 63 bits."""
_BYTES: Final = (b",", b":", b"{", b"[")
_SIGNS: Final = (",", ":", "{", "[")


def parse_json(content: bytes | str, what: str, limit: int, max_values: int = 0) -> Any:  # noqa: ANN401 - JSON
    """Parse a text.

    Args:
        content: The text.
        what: What it is and where it comes from, for the error.
        limit: The largest size, in bytes of `bytes` and characters of `str`.
        max_values: The largest number of values; at least MAX_VALUES.

    Raises:
        FormatError: it is not JSON, is larger, has too many values, or is nested too
            deep.
    """
    if len(content) > limit:
        raise FormatError(f"{what} has {len(content)} bytes; at most {limit} are read")
    # every value but the first follows one of these signs; those inside of texts count too
    if isinstance(content, str):
        values = sum(map(content.count, _SIGNS))
    else:
        values = sum(map(content.count, _BYTES))
    if values > (most := max(MAX_VALUES, max_values)):
        raise FormatError(f"{what} has more than {most} values")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what} is not JSON: {error}") from error


def count_of(value: object) -> int:
    """A number of files or bytes, as it is in the JSON: not negative, and less than 2^50.

    Raises:
        FormatError: it is not such a number.
    """
    if type(value) is int and 0 <= value < _MAX_COUNT:
        return value
    raise FormatError(f"not a count: {value!r:.40}")
