"""Names of people, applications and tables: reject invisible characters, and compare names.

A name that differs from another one by invisible characters would be taken for another person, who
may then approve that person's request.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator, Field

_HIDDEN_CATEGORIES: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Control, format, surrogate, private, unassigned; the separators of lines and paragraphs."""
_HIDDEN: Final = re.compile(
    # what Unicode lets a font ignore (Default_Ignorable_Code_Point) and is of other categories
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    # what fonts show as a blank although it is not a space
    "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159]"
)


def has_hidden(text: str) -> bool:
    """Whether a text has a character that can't be seen, or that changes how others are shown."""
    if text.isascii():
        return not text.isprintable()
    return _HIDDEN.search(text) is not None or any(
        unicodedata.category(sign) in _HIDDEN_CATEGORIES for sign in text
    )


def visible(name: str) -> str:
    """The name.

    Raises:
        ValueError: it has a hidden character, or nothing but spaces.
    """
    if has_hidden(name):
        raise ValueError("a name has no control, format or other invisible characters")
    if not compared(name):
        raise ValueError("a name has more than spaces")
    return name


def compared(name: str) -> str:
    """A name without case, spaces and Unicode forms, for comparison."""
    folded = unicodedata.normalize("NFD", name).casefold()
    folded = unicodedata.normalize("NFKC", folded).casefold()
    return unicodedata.normalize("NFKC", "".join(folded.split()))


Name = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(visible)]
"""The name of a person, an application or a policy."""
