"""Check whether a table's properties and the Metastore's settings allow a cleaning now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidegate.errors import TidegateError
from tidegate.hive_bridge.settings import milliseconds
from tidegate.hive_metastore.values import Compaction, Table

_NO_CLEANUP: Final = "no_cleanup"
_DELAYED: Final = "hive.compactor.delayed.cleanup.enabled"
_RETENTION: Final = "hive.compactor.cleaner.retention.time.seconds"
_USUAL_RETENTION: Final = "300s"
_PREFIX: Final = "compactor."
"""Hive's prefix for a table's property that overrides a setting."""
_AGAIN_SECONDS: Final = 60.0


class NotYet(TidegateError):  # noqa: N818 - expected, not a fault
    """A compaction that must not be cleaned now. The catcher tries again after `seconds`."""

    def __init__(self, message: str, seconds: float = _AGAIN_SECONDS) -> None:
        """Take the reason, and the seconds until the next try."""
        super().__init__(message)
        self.seconds = seconds


def check_wanted(
    compaction: Compaction,
    table: Table,
    partition: Table | None,
    setting: Callable[[str], str | None],
    now_ms: int,
) -> None:
    """Check whether Hive's own properties allow to clean a compaction now.

    `NO_CLEANUP` = true on the table or the partition forbids it. Hive's delayed cleaning
    (`hive.compactor.delayed.cleanup.enabled`) forbids it until the retention time is over. The
    retention's two settings may stand in the Metastore's settings or in the table's properties,
    there with or without the prefix `compactor.`. The table's property wins.

    Args:
        compaction: The compaction.
        table: Its table.
        partition: Its partition, or None for the whole table.
        setting: Returns a setting of the Metastore.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        NotYet: the compaction must not be cleaned now.
    """
    for place, kind in ((table, "table"), (partition, "partition")):
        if place is not None and has_no_cleanup(place.parameters):
            raise NotYet(f"its {kind} has the property NO_CLEANUP: remove it to allow the cleaning")

    def value(name: str) -> str | None:
        own = _lower(table.parameters)
        return own.get(_PREFIX + name) or own.get(name) or setting(name)

    if not _is_true(value(_DELAYED)) or not compaction.committed_ms:
        return
    text = value(_RETENTION) or _USUAL_RETENTION
    try:
        # a plain number is in seconds here, see the setting's name
        retention = milliseconds(f"{text}s" if text.strip().isdecimal() else text)
    except ValueError as error:
        raise NotYet(f"{_RETENTION} is not a duration: {text!r}") from error
    left = compaction.committed_ms + int(str(retention)) - now_ms
    if left > 0:
        raise NotYet(f"Hive's delayed cleaning is on: its retention time is {text}", left / 1000)


def has_no_cleanup(parameters: Mapping[str, str]) -> bool:
    """Whether the properties of a table or partition forbid its cleaning."""
    return _is_true(_lower(parameters).get(_NO_CLEANUP))


def _lower(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in parameters.items()}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
