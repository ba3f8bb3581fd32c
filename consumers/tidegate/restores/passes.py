"""Which instants of a restore are rolled back in one pass over their files. Pure.

A pass first unpublishes its instants, newest first. Then it removes all their data files in one
parallel job, and last their pending files. A crash in between leaves several inflight writes, whose
files both Tidegate and Hudi find by listing. Hudi then continues with the newest, and refuses an
instant while a later one is on the timeline.

Hudi identifies an instant by time and action. So compactions and clusterings, whose action changes
when they are unpublished, get a pass of their own. So do instants that need rollback blocks,
because blocks are numbered in sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidegate.hudi import Action, Instant, Layout
from tidegate.restores.plan import Step

FILES_PER_PASS: Final = 50_000
"""A pass gets no further instant beyond this number of files: progress is published in between."""
_JOIN: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


def passes(
    steps: Sequence[Step], files: Mapping[str, Sequence[Instant]], layout: Layout
) -> Iterator[tuple[Step, ...]]:
    """Divide the steps of a plan into passes, in their order.

    Args:
        steps: The steps.
        files: The timeline's files of every write, by timestamp.
        layout: The timeline's layout.
    """
    group, count = list[Step](), 0
    for step in steps:
        descends = bool(group) and step.target.timestamp < group[-1].target.timestamp
        fits = count + len(step.files) <= FILES_PER_PASS
        joins = descends and fits and all(_may_join(s, files, layout) for s in (group[-1], step))
        if group and not joins:
            yield tuple(group)
            group, count = [], 0
        group.append(step)
        count += len(step.files)
    if group:
        yield tuple(group)


def _may_join(step: Step, files: Mapping[str, Sequence[Instant]], layout: Layout) -> bool:
    actions = {file.action for file in files.get(step.target.timestamp, ())}
    is_appended = layout is Layout.ONE and Action.DELTA_COMMIT in actions
    keeps_its_action = len(actions) <= 1 and actions <= _JOIN
    return keeps_its_action and not is_appended and not step.blocks
