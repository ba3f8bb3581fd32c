"""The identity of tables and of events."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from hashlib import sha1
from typing import Final

from tidegate.errors import FormatError
from tidegate.events.names import has_hidden

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "tidegate.events").bytes
_fresh: Final = sha1(_NAMESPACE, usedforsecurity=False).copy
"""Begins a hash at half the cost of finding the algorithm by name."""
_PART: Final = re.compile(r"[^\s./\\\x00-\x1f]+")
_PARTS: Final = 3
_VARIANT: Final = {f"{digit:x}": "89ab"[digit & 3] for digit in range(16)}
"""The digit that takes the variant of RFC 9562, by what it was."""


@lru_cache(maxsize=10_000)  # every event names a table, and there are few tables
def table_identity(name: str) -> str:
    """Normalise a table's name to `catalog.database.table`, the key of every topic.

    Hive Metastore and Spark fold names to lower case, so two spellings are one table.

    Raises:
        FormatError: not exactly three non-empty parts, or a part holds white space, a slash, a
            backslash, or a control or invisible character.
    """
    parts = name.strip().lower().split(".")
    if (
        len(parts) != _PARTS
        or not all(_PART.fullmatch(part) for part in parts)
        or has_hidden(name.strip())
    ):
        raise FormatError(f"{name!r} is not a table name of the form catalog.database.table")
    return ".".join(parts)


def derived_id(*parts: object) -> str:
    """Derive an event id (a version 5 UUID) from the values that identify the event.

    The same values give the same id on every machine and in every replay, so repeats are
    recognised.
    """
    return id_of("\x1f".join(["" if part is None else str(part) for part in parts]))


def id_of(text: str) -> str:
    """The id derived from a text, in which the parts are joined by U+001F."""
    # as uuid.uuid5 does, at a fifth of its cost: this runs for every fact that is read
    digest = _fresh()
    digest.update(text.encode())
    name = digest.hexdigest()
    variant = _VARIANT[name[16]]
    return f"{name[:8]}-{name[8:12]}-5{name[13:16]}-{variant}{name[17:20]}-{name[20:32]}"
