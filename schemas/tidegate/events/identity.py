"""Who an event is about, and what makes two events the same."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Final

from tidegate.errors import FormatError

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://tidegate.dev/events")
_PART: Final = re.compile(r"[^\s./\\\x00-\x1f]+")
_PARTS: Final = 3


@lru_cache(maxsize=10_000)  # every event is of some table, and they are few
def table_identity(name: str) -> str:
    """Normalise a table's name to `catalog.database.table`, the key of every topic.

    Hive Metastore and Spark fold names to lower case, so two spellings are one table.

    Raises:
        FormatError: it has not exactly three non-empty parts.
    """
    parts = name.strip().lower().split(".")
    if len(parts) != _PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise FormatError(f"a table is named catalog.database.table, not {name!r}")
    return ".".join(parts)


def derived_id(*parts: object) -> str:
    """Derive an event id (a version 5 UUID) from what makes the event itself.

    The same parts give the same id on every machine and in every replay: that is how a repeat is
    recognised.
    """
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join("" if p is None else str(p) for p in parts)))
