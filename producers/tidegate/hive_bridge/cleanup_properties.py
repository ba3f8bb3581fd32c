"""What a table's properties, and the Metastore's settings, say of cleaning it. Pure."""

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
"""What Hive puts before a setting's name where a table's property overrides it."""
_AGAIN_SECONDS: Final = 60.0


class NotYet(TidegateError):  # noqa: N818 - expected, not a fault
    """A compaction that is not to be cleaned now. The catcher asks again after `seconds`."""

    def __init__(self, message: str, seconds: float = _AGAIN_SECONDS) -> None:
        """Take why, and when to ask again."""
        super().__init__(message)
        self.seconds = seconds


def check_wanted(
    compaction: Compaction,
    table: Table,
    partition: Table | None,
    setting: Callable[[str], str | None],
    now_ms: int,
) -> None:
    """Find out whether a compaction may be cleaned now, by Hive's own properties.

    `NO_CLEANUP` = true on the table or the partition: not while it is there. Hive's delayed
    cleaning (`hive.compactor.delayed.cleanup.enabled`): not before its retention time is over. Each
    may be a setting of the Metastore, or a property of the table, with or without `compactor.`
    before its name, which wins.

    Args:
        compaction: The compaction.
        table: Its table.
        partition: Its partition, if it is of one.
        setting: Asks for a setting of the Metastore.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        NotYet: it may not.
    """
    for place, kind in ((table, "table"), (partition, "partition")):
        if place is not None and has_no_cleanup(place.parameters):
            raise NotYet(f"its {kind} has the property NO_CLEANUP: remove it to have it cleaned")

    def value(name: str) -> str | None:
        own = _lower(table.parameters)
        return own.get(_PREFIX + name) or own.get(name) or setting(name)

    if not _is_true(value(_DELAYED)) or not compaction.committed_ms:
        return
    text = value(_RETENTION) or _USUAL_RETENTION
    try:
        # a plain number is of seconds here, as the name says
        kept = milliseconds(f"{text}s" if text.strip().isdecimal() else text)
    except ValueError as error:
        raise NotYet(f"{_RETENTION} is not understood: {text!r}") from error
    left = compaction.committed_ms + int(str(kept)) - now_ms
    if left > 0:
        raise NotYet(f"Hive's delayed cleaning is on: its retention time is {text}", left / 1000)


def has_no_cleanup(parameters: Mapping[str, str]) -> bool:
    """Whether the properties of a table or partition say that it is not to be cleaned."""
    return _is_true(_lower(parameters).get(_NO_CLEANUP))


def _lower(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in parameters.items()}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
