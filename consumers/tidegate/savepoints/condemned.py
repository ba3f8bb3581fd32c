"""The reaction to a condemned commit: nothing, a plan, or a restore that needs approval. Pure.

Any writer may publish that a commit is condemned, so that event alone never changes a table: the
plan only shows what a restore would do, and the restore waits for a person's approval.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from tidegate.errors import FormatError
from tidegate.events import Value
from tidegate.events.limits import Text
from tidegate.tables.scope import covers_name, covers_place


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
