"""What the reader gate says when something waits too long: once, and once when it is over. Pure.

That it was said is part of the table's state: in the record of the vacuum, or in the record of a
table of which only releases are known. So a restart or a rebalance does not say it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from tidegate.cleaning.gate_index import GateIndex
from tidegate.cleaning.gate_lacks import lacks_of
from tidegate.cleaning.gate_state import (
    UNKNOWN,
    VACUUM,
    VACUUMS,
    UnknownTable,
    VacuumRecord,
    WaitingVacuum,
)
from tidegate.events import (
    LockReleased,
    Outcome,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.runtime.protocols import Pieces

_SAID_BY: Final = "reader-gate"
_SHOWN: Final = 100
_NAMED: Final = 3
"""Holds that the message names; the event has more."""
_MS: Final = timedelta(milliseconds=1)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """How long vacuums and releases of some tables may wait; None: for ever, without an alarm."""

    tables: str = "*"
    """A shell pattern."""
    overdue_after: timedelta | None = timedelta(days=1)
    """How long a vacuum may wait for its readers."""
    unknown_after: timedelta | None = timedelta(days=7)
    """How long releases of a table may come before its first vacuum."""


@dataclass(frozen=True)
class Alarms:
    """The rules; the first whose pattern matches a table applies, and else the usual limits."""

    rules: tuple[AlarmRule, ...] = ()

    def rule_of(self, table: str) -> AlarmRule:
        """The rule that applies to a table."""
        return _rule_of(self.rules, table)

    def due_ms(self, table: str, name: str, pieces: Pieces) -> int | None:
        """When a piece is to be said, in ms of the broker's time; None: never, or it was."""
        if name[0] == VACUUM:
            limit = _rule_of(self.rules, table).overdue_after
        elif name == UNKNOWN:
            limit = self.rule_of(table).unknown_after
        else:
            return None
        piece = None if limit is None else pieces.get(name)
        if limit is None or not isinstance(piece, _WAITING):
            return None
        since = piece.unsaid_since()
        return None if since is None else _ms_after(since, limit)

    def say(
        self, table: str, names: Collection[str], index: GateIndex, at: datetime
    ) -> tuple[dict[str, object], list[Outcome]]:
        """Say what is due at a time, of the pieces named.

        Returns:
            Those pieces as they are from now on, and what is said.
        """
        changed: dict[str, object] = {}
        outcomes: list[Outcome] = []
        for name in sorted(names):
            due = self.due_ms(table, name, index.pieces)
            if due is None or due > _ms(at):
                continue
            piece = index.pieces.get(name)
            if isinstance(piece, UnknownTable):
                changed[name] = replace(piece, said_at=at)
                outcomes.append(self._unknown(table, piece, at))
            elif isinstance(piece, WaitingVacuum | VacuumRecord):
                said = self._overdue(table, waiting := piece.whole(), index, at)
                if said is not None:
                    changed[name] = replace(waiting, overdue_since=at)
                    outcomes.append(said)
        return changed, outcomes

    def _overdue(
        self, table: str, waiting: WaitingVacuum, index: GateIndex, at: datetime
    ) -> VacuumOverdue | None:
        lacks = list(lacks_of(waiting, index))
        limit = self.rule_of(table).overdue_after
        if not lacks or limit is None:  # nothing: it is released with the table's next event
            return None
        more = f" and {len(lacks) - _NAMED} more" if len(lacks) > _NAMED else ""
        named = ", ".join(str(reader) for reader in lacks[:_NAMED])
        return VacuumOverdue.model_validate(
            _about(table, waiting, at)
            | {
                "limit_seconds": limit // timedelta(seconds=1),
                "holds_left": len(lacks),
                "waits_for": lacks[:_SHOWN],
                "message": f"it has waited for its readers for longer than {span(limit)} and still"
                f" lacks {named}{more}: end them, or publish a release that was lost",
            }
        )

    def _unknown(self, table: str, known: UnknownTable, at: datetime) -> UnknownTableReleased:
        limit = self.rule_of(table).unknown_after or timedelta()
        return UnknownTableReleased(
            table=table,
            location=known.location,
            occurred_at=at,
            source=_SAID_BY,
            caused_by=known.event_id,
            since=known.since,
            limit_seconds=limit // timedelta(seconds=1),
            lock_id=known.lock_id,
            transaction_id=known.transaction_id,
            published_by=known.published_by,
            message=f"releases come, and no vacuum of this table came within {span(limit)}: does"
            " its vacuum name another table, or is it not published?",
        )


USUAL_ALARMS: Final = Alarms()
"""No rule: the usual limits for all tables."""


def resolved(
    table: str, waiting: WaitingVacuum, at: datetime, replaced_by: str | None = None
) -> Iterable[VacuumOverdueResolved]:
    """What is said of a vacuum that waits no longer, if it was said to be overdue."""
    if waiting.overdue_since is not None:
        about = _about(table, waiting, at) | {"overdue_since": waiting.overdue_since}
        yield VacuumOverdueResolved.model_validate(about | {"replaced_by": replaced_by})


def first_release(event: LockReleased, at: datetime) -> UnknownTable:
    """What is kept of the first release of a table of which nothing was known."""
    return UnknownTable(
        event.event_id, event.location, at, event.lock_id, event.transaction_id, event.source
    )


def table_known(
    event: VacuumFinished, known: UnknownTable, at: datetime
) -> Iterable[UnknownTableResolved]:
    """What is said of the first vacuum of a table, if the table was said to be unknown."""
    if known.said_at is not None:
        yield UnknownTableResolved.about(
            event,
            source=_SAID_BY,
            occurred_at=at,
            since=known.since,
            unknown_since=known.said_at,
        )


def span(of: timedelta) -> str:
    """A duration for people, as they write it in the settings: 1d, 36h, 90s."""
    seconds = of // timedelta(seconds=1)
    unit, name = next((u for u in _UNITS if seconds and seconds % u[0] == 0), _UNITS[-1])
    return f"{seconds // unit}{name}"


def _about(table: str, waiting: WaitingVacuum, at: datetime) -> dict[str, object]:
    return {
        "table": table,
        "location": waiting.vacuum.location,
        "occurred_at": at,
        "source": _SAID_BY,
        "caused_by": waiting.event_id,
        "partition": waiting.vacuum.partition,
        "since": waiting.since,
    }


@lru_cache(maxsize=100)  # all vacuums of a batch have the broker's time of that batch
def _ms_after(since: datetime, limit: timedelta) -> int:
    return _ms(since + limit)


@lru_cache(maxsize=10_000)
def _rule_of(rules: tuple[AlarmRule, ...], table: str) -> AlarmRule:
    return next((rule for rule in rules if fnmatchcase(table, rule.tables)), AlarmRule())


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // _MS


_WAITING: Final = (*VACUUMS, UnknownTable)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
