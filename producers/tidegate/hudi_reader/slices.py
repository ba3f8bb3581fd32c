"""What decides which file slice a file of a table belongs to."""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import FormatError
from tidegate.hudi import Action, InstantState, SliceRules, compacted_groups
from tidegate.hudi_reader.table import HudiTable


def slice_rules(table: HudiTable) -> SliceRules:
    """Read the plans of the compactions that are pending; most tables have one at the most.

    Raises:
        FormatError: a plan can't be read; the message names the compaction.
        NotFound: it was removed meanwhile.
    """
    pending = (InstantState.REQUESTED, InstantState.INFLIGHT)
    compactions: dict[tuple[str, str], str] = {}
    for instant in table.timeline.of_action(Action.COMPACTION, *pending):
        try:
            groups = compacted_groups(table.read(replace(instant, state=InstantState.REQUESTED)))
        except FormatError as error:
            raise FormatError(f"{instant.timestamp}.compaction.requested: {error}") from error
        compactions |= dict.fromkeys(groups, instant.timestamp)
    return SliceRules(table.timeline, table.properties.layout, compactions)
