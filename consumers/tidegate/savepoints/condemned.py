"""The reaction to a condemned commit: nothing, a plan, or a restore that needs approval. Pure.

Any writer may publish that a commit is condemned, so that event alone never changes a table: the
plan only shows what a restore would do, and the restore waits for a person's approval.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Final

from tidegate.errors import FormatError
from tidegate.errors.commands import command_line
from tidegate.events import (
    CommitCondemned,
    CommitFlag,
    CommitFlagged,
    RestoreRequested,
    Value,
)
from tidegate.events.limits import Text
from tidegate.hudi.instant_time import is_in_the_future
from tidegate.savepoints.policy_state import Decision, PolicyState
from tidegate.tables.scope import covers_name, covers_place

_MAX_REASON: Final = 1_000


class CondemnedAction(StrEnum):
    """The reaction to a condemned commit."""

    NOTHING = "nothing"
    PLAN = "plan"
    """The plan of a restore to the newest known savepoint before the commit is requested."""
    RESTORE = "restore"
    """That restore is requested; it waits for the approval of a person."""


class CondemnedRule(Value, frozen=True):
    """The reaction for the tables whose identity matches `tables` (`*`, `?` and `[...]`)."""

    tables: Text = "*"
    locations: tuple[Text, ...] = ()
    """Normalised directories; the table lies in one of them. Empty: anywhere."""
    action: CondemnedAction


class CondemnedRules(Value, frozen=True):
    """Rules in order: the first whose pattern matches a table decides; by default nothing."""

    rules: tuple[CondemnedRule, ...] = ()
    normalise: Callable[[str], str] = str
    """Returns a location in the canonical spelling of the rules, or raises FormatError."""

    def action_of(self, table: str, location: str) -> CondemnedAction:
        """The reaction for a table (`catalog.database.table`) at a location in any spelling."""
        try:
            location = self.normalise(location)
        except FormatError:
            location = ""  # covered by none of the directories
        matching = (
            rule
            for rule in self.rules
            if covers_name(rule.tables, table) and covers_place(rule.locations, location)
        )
        found = next(matching, None)
        return CondemnedAction.NOTHING if found is None else found.action


def decide_on_condemned(
    action: CondemnedAction, state: PolicyState, event: CommitCondemned, at: datetime, source: str
) -> Decision:
    """Request the plan or the restore, once per commit.

    The request covers no commit later than the newest one published when it is made (`seen_up_to`):
    the writer that condemned the commit could not have seen a later one.

    Raises:
        FormatError: the instant is later than `at`, the broker's time of the event.
    """
    if action is CondemnedAction.NOTHING or event.instant in state.condemned:
        return Decision(state)
    if is_in_the_future(event.instant, at):
        raise FormatError(
            f"the instant {event.instant} is more than a day later than the broker's time of the"
            f" event, {at:%Y-%m-%dT%H:%M:%SZ}: no writer can have completed it yet"
        )
    after = state.with_condemned(event.instant)
    savepoint = after.newest_savepoint_before(event.instant)
    if savepoint is None:
        flagged = CommitFlagged.about(
            event,
            source=source,
            occurred_at=at,
            instant=event.instant,
            flag=CommitFlag.NO_SAVEPOINT_BEFORE,
            message=f"{event.source} condemned the commit ({event.reason}), but no earlier"
            " savepoint is known, so nothing was requested. Request a restore to one of the"
            f" table's savepoints, see: {command_line('savepoints list', event.location)}",
        )
        return Decision(after, outcomes=(flagged,))
    why = f"commit {event.instant} was condemned by {event.source}: {event.reason}"
    request = RestoreRequested.about(
        event,
        source=source,
        occurred_at=at,
        savepoint=savepoint,
        requested_by=event.source,
        reason=why[:_MAX_REASON],
        plan_only=action is CondemnedAction.PLAN,
        needs_approval=action is CondemnedAction.RESTORE,
        seen_up_to=after.newest,
    )
    return Decision(after.with_wanted(savepoint, at), (request,))
