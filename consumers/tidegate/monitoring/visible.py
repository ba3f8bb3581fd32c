"""Text from others made visible: nothing in it can act on a terminal or forge a line."""

from __future__ import annotations

import re
from typing import Final

# controls, zero-width characters, line separators, changes of direction, and half of a pair
_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: object) -> str:
    """Text on one line, with escapes for characters that a terminal would interpret or hide."""
    return _HIDDEN.sub(lambda found: _escape(ord(found[0])), str(text))


def _escape(code: int) -> str:
    if code <= 0xFF:  # noqa: PLR2004 - the widths of Python's escapes
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
