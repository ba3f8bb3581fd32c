"""Which commits a savepoint's check for missing files has to read. Pure.

Hudi's cleaner removes a version of a file group only where a later commit wrote a newer one, or
replaced the group. So a commit of which no file is left says nothing that a later one does not: the
newest version before the savepoint is among those left, or else a commit after the savepoint names
it as what it followed. That holds for every policy of the cleaner. It does not hold for:

- what was removed by hand. Commits from the clean's bound on keep all their files, by Hudi's own
  rule, and commits with some files left should have the others, too: all these are read.
- groups that a commit after the savepoint replaced: it does not say whether they were there before.
  Then every commit is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from tidegate.hudi import Action, Instant, Layout, SliceRules, parse_data_file


def commits_to_read(
    commit: str, bound: str | None, rules: SliceRules, names: Iterable[str]
) -> tuple[Instant, ...]:
    """The completed writes whose metadata are to be read, in the order to read them.

    Replacements come first, the newest of them first: then most of what they replaced is known
    before it seems to be missing.

    Args:
        commit: The timestamp of the commit to savepoint.
        bound: The clean's bound; empty or None where it has none.
        rules: With the table's timeline and layout.
        names: Those of all data files; looked at only if a commit could be left out.

    Raises:
        FormatError: a log file has a name of an unknown form.
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
    """Whether a write has to be read: it is not before `until`, or has files in `left`.

    Replacements are read in any case, for the groups that they replaced. Log files of layout 1 are
    not named after the delta commit that wrote them.
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
