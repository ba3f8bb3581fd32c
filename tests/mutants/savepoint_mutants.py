"""When a savepoint may be derived from an earlier one: each rule broken on purpose."""

from __future__ import annotations

from typing import Final

from mutants.mutants import Mutant

_SAVEPOINTS: Final = "consumers/tidegate/savepoints/"
_DERIVATION: Final = _SAVEPOINTS + "derivation.py"
_INCREMENTAL: Final = _SAVEPOINTS + "incremental.py"
_TESTS: Final = "tests/savepoints/test_derived_savepoints.py"

SAVEPOINT_MUTANTS: Final = (
    Mutant(
        "derived savepoints: what completed since counts, whenever it began",
        _DERIVATION,
        (
            (
                "each.timestamp > savepointed or not _was_completed(each, then)",
                "each.timestamp > savepointed",
            ),
        ),
        f"{_TESTS} -k pending_and_completed_since",
    ),
    Mutant(
        "derived savepoints: what is no longer after the savepoint counts, however old",
        _DERIVATION,
        (
            (
                "each.timestamp > savepointed or not _was_completed(each, then)",
                "not _was_completed(each, then)",
            ),
        ),
        f"{_TESTS} -k there_already",
    ),
    Mutant(
        "derived savepoints: a rollback since is a doubt",
        _DERIVATION,
        (("        if after - before:\n", "        if False:\n"),),
        f"{_TESTS} -k in_doubt",
    ),
    Mutant(
        "derived savepoints: a rollback that may have been archived is a doubt",
        _DERIVATION,
        (("        if before and max(", "        if not before and max("),),
        f"{_TESTS} -k may_have_been",
    ),
    Mutant(
        "derived savepoints: a pending rollback is a doubt",
        _DERIVATION,
        (("each.state is not InstantState.COMPLETED for each in before | after", "False"),),
        f"{_TESTS} -k in_doubt",
    ),
    Mutant(
        "derived savepoints: a pending write that is gone is a doubt",
        _DERIVATION,
        (
            (
                "if not is_completed or not timeline.start or write.timestamp >= timeline.start:",
                "if not timeline:",
            ),
        ),
        f"{_TESTS} -k pending_and_is_gone",
    ),
    Mutant(
        "derived savepoints: a completed write that changed is a doubt",
        _DERIVATION,
        (("now.get(key, write) != write", "not write"),),
        f"{_TESTS} -k in_doubt",
    ),
    Mutant(
        "derived savepoints: unknown files are a doubt once commits were archived",
        _DERIVATION,
        (("    if view.has_strangers:\n", "    if False:\n"),),
        f"{_TESTS} -k unknown_instants",
    ),
    Mutant(
        "derived savepoints: an archived replacement is a doubt",
        _DERIVATION,
        (("        if write.action is Action.REPLACE_COMMIT:\n", "        if False:\n"),),
        f"{_TESTS} -k archived_replacement",
    ),
    Mutant(
        "derived savepoints: an archived write that was not alone is a doubt",
        _DERIVATION,
        (("begun[after] <= (write.completion or", "begun[after] < (write.timestamp or"),),
        f"{_TESTS} -k another_began",
    ),
    Mutant(
        "derived savepoints: pending delta commits of version 6 are a doubt",
        _DERIVATION,
        (("    if properties.layout is Layout.ONE and ", "    if not properties and "),),
        f"{_TESTS} -k version_6_are",
    ),
    Mutant(
        "derived savepoints: now and then everything is listed",
        _DERIVATION,
        (("    if view.derived >= most_derived:\n", "    if False:\n"),),
        f"{_TESTS} -k after_many",
    ),
    Mutant(
        "derived savepoints: what a clean touched is listed",
        _INCREMENTAL,
        (("    return written | cleaned | compacted\n", "    return written | compacted\n"),),
        f"{_TESTS} -k clean_removed",
    ),
    Mutant(
        "derived savepoints: a file that a savepoint keeps and that is gone is a doubt",
        _INCREMENTAL,
        (
            ("for name in names if name not in sizes)", "for name in names if not name)"),
            ("sizes[name] for name in names)", "sizes.get(name, 0) for name in names)"),
        ),
        f"{_TESTS} -k clean_removed",
    ),
    Mutant(
        "derived savepoints: replacements before the savepoint count where a partition changed",
        _INCREMENTAL,
        (("read_commits(table, earlier, parallel_map)", "read_commits(table, (), parallel_map)"),),
        f"{_TESTS} -k long_ago",
    ),
    Mutant(
        "derived savepoints: paths of commits are checked",
        _INCREMENTAL,
        (("        _check_paths(touched - old.keys(), base, touched)\n", ""),),
        f"{_TESTS} -k strange_path",
    ),
    Mutant(
        "derived savepoints: nothing is derived from a damaged savepoint",
        "schemas/tidegate/hudi/containers.py",
        (
            (
                "if content[start - _SYNC_BYTES : start] != sync or not content.endswith(sync):",
                "if not sync:",
            ),
        ),
        f"{_TESTS} -k damaged",
    ),
    Mutant(
        "derived savepoints: none is written once the one before it was removed",
        _SAVEPOINTS + "executor.py",
        (("is_kept = base is None or base in now.savepoints", "is_kept = True"),),
        "tests/savepoints/test_savepoint_races.py -k derived",
    ),
)
