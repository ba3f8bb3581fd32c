"""The settings of the Metastore bridge."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AliasChoices, BeforeValidator, Field

from tidegate.hive_metastore import MetastoreSettings

SOURCE: Final = "metastore-bridge"
"""The bridge's name in its events."""
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")
_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: object) -> object:
    """Parse a duration in the notation of openLooKeng and Hive (`2s`, `500ms`) to milliseconds.

    A value that is not text is returned unchanged.

    Raises:
        ValueError: text that is not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ValueError("not a duration such as 2000, 500ms or 2s")
    return round(float(match[1]) * _MS[match[2]])


class BridgeSettings(MetastoreSettings, frozen=True, extra="forbid", populate_by_name=True):
    """A Metastore, and how to watch it."""

    interval_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(
        default=2_000,
        ge=50,
        validation_alias=AliasChoices("interval_ms", "hive.compaction-cleanup-interval"),
    )
    """Interval between polls of the Metastore, in milliseconds or as text with a unit."""
    threads: int = Field(
        default=2, ge=1, validation_alias=AliasChoices("threads", "hive.compaction-cleanup-threads")
    )
    """How many compactions are looked up in parallel."""
    aborted_interval_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(
        default=600_000, ge=0
    )
    """Interval between searches for directories of aborted writes, in milliseconds; 0: never."""
    aborted_grace_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(default=600_000, ge=0)
    """How long a write must have been aborted before its directories are removed, in milliseconds.
    Its writer may still be running and not know of the abort. Set it longer than the Metastore's
    `metastore.txn.timeout`."""
    readers_lock_at_once: bool = False
    """Assert that every engine takes all locks of a transaction in one call. Hive does so, unless
    it reads without locks (`hive.txn.read.locks` = false or `hive.acid.lockless.reads.enabled` =
    true). If true, a vacuum does not wait for a transaction that has locked other tables only: a
    long query holds back only the tables that it reads. If false, a vacuum waits for the end of
    every transaction: an engine that locks its tables one by one may lock this table later and read
    its old state."""
