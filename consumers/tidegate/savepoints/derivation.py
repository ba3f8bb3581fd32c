"""When a savepoint can be derived from an earlier one, and from which changes. Pure.

An earlier savepoint that Tidegate wrote keeps, of each partition, the files that a listing gave
then. A listing now gives the same for every partition in which nothing happened since. So only
the partitions that something since names are listed. What names them is what Hudi's own metadata
table relies on: the metadata of completed writes, which name each partition that they changed.

Nothing is derived where anything else could have changed a partition, or could have gone
unnoticed. `InDoubt` says what; then everything is listed:

- the savepointed commit, or any write after it, is no longer on the timeline: archived, rolled
  back, or restored. Commits before it may be archived, but not if a replacement was among them
  (its groups would count again), if another write began while one was under way (its log files
  could belong to another slice), or if there were files of unknown instants (they would count now);
- a write that was pending is gone, or one that was completed is another one now;
- a restore, or a rollback, began since, or one is pending; or so many that the archiver could have
  taken one: it keeps the newest ones, so the newest known one has to be there still;
- a write overlapped the savepointed commit: its savepoint may keep files for a restore to it that
  a later one does not need;
- up to version 6, log files of a pending delta commit can't be told from committed ones.

What a clean removed is listed again, although it removes no file of a savepoint that exists.

One difference is left: where a compaction and the delta commits that it merged are archived, a
listing can't tell any more which slice their log files were of, and has them with both. A savepoint
that is derived knows it from before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from tidegate.errors import TidegateError
from tidegate.hudi import (
    WRITES,
    Action,
    Instant,
    InstantState,
    Layout,
    TableProperties,
    Timeline,
)
from tidegate.savepoints.overlaps import overlaps
from tidegate.savepoints.view import View, relevant_instants

MOST_DERIVED: Final = 24
"""So many savepoints in a row are derived, then everything is listed again: what somebody removed
by hand, in a partition where nothing else happened, is noticed by then."""
_Key = tuple[str, str]


class InDoubt(TidegateError):  # noqa: N818 - states a finding
    """It can't be proven that a derived savepoint would be equal. The catcher lists everything."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since a savepoint was planned, and what counts anew at a later commit."""

    writes: tuple[Instant, ...]
    """Completed writes whose partitions are to be listed."""
    cleans: tuple[Instant, ...]
    compactions: frozenset[str]
    """The times of compactions that were pending then: the partitions of their plans, too."""


def changes_since(
    view: View,
    savepointed: str,
    properties: TableProperties,
    timeline: Timeline,
    most_derived: int = MOST_DERIVED,
) -> Changes:
    """What to look at, to derive a savepoint of a later commit of the timeline as it is now.

    Args:
        view: What the earlier savepoint's plan saw.
        savepointed: Its commit.
        properties: Those of the table, now.
        timeline: That of the table, now.
        most_derived: How many savepoints in a row may be derived; 0: none.

    Raises:
        InDoubt: it can't be known for certain.
    """
    if view.table != (properties.version, properties.table_type):
        raise InDoubt("the table was upgraded or is another one")
    if view.derived >= most_derived:
        raise InDoubt(f"{view.derived} savepoints in a row were derived")
    commit = timeline.completed_write(savepointed)
    if commit is None:
        raise InDoubt(f"commit {savepointed} is no longer on the timeline")
    then = {_key(instant): instant for instant in view.instants}
    now = {_key(instant): instant for instant in relevant_instants(timeline, properties.layout)}
    _check_overlaps(commit, properties, timeline, then)
    _check_rollbacks(then, now)
    _check_writes(view, then, now, timeline)
    if properties.layout is Layout.ONE and properties.is_merge_on_read:
        _check_logs(chain(then.values(), now.values()))
    return Changes(
        tuple(
            write
            for write in timeline.completed_writes
            if write.timestamp > savepointed or not _was_completed(write, then)
        ),
        tuple(
            each
            for each in timeline.of_action(Action.CLEAN, InstantState.COMPLETED)
            if not _was_completed(each, then)
        ),
        frozenset(each.timestamp for each in then.values() if each.action is Action.COMPACTION),
    )


def _check_overlaps(
    commit: Instant, properties: TableProperties, timeline: Timeline, then: dict[_Key, Instant]
) -> None:
    """What completed since was not in the savepoint's list, and is looked at anyway."""
    later = timeline.completed_after(commit, properties.rolled_back_by_request)
    undone = {each.timestamp for each in later}
    seen = tuple(
        instant
        for instant in timeline.instants
        if _was_completed(instant, then) or instant.action is Action.COMPACTION
    )
    if overlaps(commit.timestamp, Timeline(seen), properties.layout, undone):
        raise InDoubt(f"a write overlapped commit {commit.timestamp}")


def _check_rollbacks(then: dict[_Key, Instant], now: dict[_Key, Instant]) -> None:
    for action in (Action.ROLLBACK, Action.RESTORE):
        before = {each for each in then.values() if each.action is action}
        after = {each for each in now.values() if each.action is action}
        if any(each.state is not InstantState.COMPLETED for each in before | after):
            raise InDoubt(f"a {action} is pending, or was")
        if after - before:
            raise InDoubt(f"a {action} began since")
        if before and max(before, key=lambda each: each.timestamp) not in after:
            raise InDoubt(f"a {action} may have been archived")


def _check_writes(
    view: View, then: dict[_Key, Instant], now: dict[_Key, Instant], timeline: Timeline
) -> None:
    archived = list[Instant]()
    for key, write in then.items():
        if write.action not in WRITES:
            continue
        is_completed = write.state is InstantState.COMPLETED
        if is_completed and now.get(key, write) != write:
            raise InDoubt(f"write {write.timestamp} is not what it was")
        if key not in now:
            if not is_completed or not timeline.start or write.timestamp >= timeline.start:
                raise InDoubt(f"write {write.timestamp} is no longer on the timeline")
            archived.append(write)
    if archived:
        _check_archived(view, archived, (*then.values(), *now.values()))


def _check_archived(view: View, archived: Iterable[Instant], instants: Iterable[Instant]) -> None:
    if view.has_strangers:
        raise InDoubt("commits were archived, and there are files of unknown instants")
    begun = sorted(instant.timestamp for instant in instants if instant.action in WRITES)
    for write in archived:
        if write.action is Action.REPLACE_COMMIT:
            raise InDoubt(f"replacement {write.timestamp} was archived")
        after = bisect_right(begun, write.timestamp)
        if after < len(begun) and begun[after] <= (write.completion or ""):
            raise InDoubt(f"archived write {write.timestamp} was not alone")


def _check_logs(instants: Iterable[Instant]) -> None:
    kinds = {Action.DELTA_COMMIT, Action.LOG_COMPACTION}
    if any(i.action in kinds and i.state is not InstantState.COMPLETED for i in instants):
        raise InDoubt("a delta commit is pending, or was: its log files can't be told from others")


def _was_completed(instant: Instant, then: dict[_Key, Instant]) -> bool:
    known = then.get(_key(instant))
    return known is not None and known.state is InstantState.COMPLETED


def _key(instant: Instant) -> _Key:
    return instant.timestamp, "write" if instant.action in WRITES else instant.action
