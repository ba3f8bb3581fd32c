"""Which commits a savepoint's check for missing files has to read. Pure.

Hudi's cleaner removes a version of a file group only if a later commit wrote a newer version or
replaced the group. So a commit without remaining files adds nothing to later ones: the newest
version before the savepoint still exists, or else a commit after the savepoint names it as its
predecessor. That holds for every cleaner policy, with two exceptions:

- Files that were removed by hand. By Hudi's own rule, commits from the clean's bound on retain all
  their files, and a commit with some files left should have the others, too. All these are read.
- Groups that a commit after the savepoint replaced. That commit does not record whether they
  existed at the savepoint, so every commit is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from tidegate.hudi import Action, Instant, Layout, SliceRules, parse_data_file


def commits_to_read(
    commit: str, bound: str | None, rules: SliceRules, names: Iterable[str]
) -> tuple[Instant, ...]:
    """The completed writes whose metadata have to be read, in reading order.

    Replacements come first, newest first: so most replaced groups are known before their files seem
    to be missing.

    Args:
        commit: The timestamp of the commit to savepoint.
        bound: The clean's bound; empty or None if it has none.
        rules: With the table's timeline and layout.
        names: The names of all data files; iterated only if some commit may be skipped.

    Raises:
        FormatError: a log file's name has an unknown form.
    """
    writes = rules.timeline.completed_writes
    if any(_replaces(write) and write.timestamp > commit for write in writes):
        return _ordered(writes)
    until = min(bound or commit, commit)
    if all(_is_needed(write, until, rules.layout) for write in writes):
        return _ordered(writes)
    left = frozenset(_instants(names))
    return _ordered(write for write in writes if _is_needed(write, until, rules.layout, left))


def _ordered(writes: Iterable[Instant]) -> tuple[Instant, ...]:
    newest_first = sorted(writes, key=lambda write: write.timestamp, reverse=True)
    return tuple(sorted(newest_first, key=_replaces, reverse=True))


def _is_needed(
    write: Instant, until: str, layout: Layout, left: AbstractSet[str] = frozenset()
) -> bool:
    """Whether a write has to be read: it is not before `until`, or it has files in `left`.

    Replacements are always read, for the groups that they replaced. So are delta commits of
    layout 1, because their log files do not carry their instants.
    """
    unnamed = layout is Layout.ONE and write.action is Action.DELTA_COMMIT
    return write.timestamp >= until or _replaces(write) or unnamed or write.timestamp in left


def _replaces(write: Instant) -> bool:
    return write.action is Action.REPLACE_COMMIT


def _instants(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        file = parse_data_file(name)
        if file is not None:
            yield file.instant
