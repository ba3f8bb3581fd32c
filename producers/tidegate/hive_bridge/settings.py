"""The settings of the Metastore bridge."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AliasChoices, BeforeValidator, Field

from tidegate.hive_metastore import MetastoreSettings

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")
_MS: Final = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(value: object) -> object:
    """A duration as openLooKeng and Hive write it (`2s`, `500ms`) in milliseconds.

    Anything else is returned as it is.

    Raises:
        ValueError: text that is not a duration.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ValueError("not a duration such as 2000, 500ms or 2s")
    return round(float(match[1]) * _MS[match[2]])


class BridgeSettings(
    MetastoreSettings,
    frozen=True,
    extra="forbid",
    populate_by_name=True,
    use_attribute_docstrings=True,
):
    """A Metastore, and how it is watched."""

    interval_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(
        default=2_000,
        ge=50,
        validation_alias=AliasChoices("interval_ms", "hive.compaction-cleanup-interval"),
    )
    """How often it is looked at, in milliseconds; also as text with a unit."""
    threads: int = Field(
        default=2,
        ge=1,
        validation_alias=AliasChoices("threads", "hive.compaction-cleanup-threads"),
    )
    """How many compactions are looked up at the same time."""
    aborted_interval_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(
        default=600_000,
        ge=0,
    )
    """How often it is looked for what aborted writes left, in milliseconds; 0: never."""
    aborted_grace_ms: Annotated[int, BeforeValidator(milliseconds)] = Field(
        default=600_000,
        ge=0,
    )
    """How long a write has been seen as aborted before what it left goes: its writer may be alive,
    and not know it yet. Longer than the Metastore's `metastore.txn.timeout`."""
    readers_lock_at_once: bool = False
    """Assert that every engine takes all locks of a transaction in one call, and that no table is
    renamed while it is read. Hive does so, unless it reads without locks (`hive.txn.read.locks` =
    false or `hive.acid.lockless.reads.enabled` = true). Then a transaction that has locked other
    tables only is not waited for: a long query holds back only the tables that it reads. Otherwise
    every transaction is waited for until its end: an engine that locks its tables one by one may
    lock this one later, and read it as it was before."""
