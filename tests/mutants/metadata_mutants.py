"""When a metadata table is kept through a restore, and its lock: each rule broken on purpose."""

from __future__ import annotations

from typing import Final

from mutants.mutants import Mutant

_RESTORES: Final = "consumers/tidegate/restores/"
_UNDO: Final = _RESTORES + "metadata_undo.py"
_KEEPING: Final = _RESTORES + "metadata_keeping.py"
_TABLE: Final = _RESTORES + "metadata_table.py"
_PLANS: Final = "tests/restores/test_metadata_undo.py"
_CRASHES: Final = "tests/restores/test_metadata_table_crashes.py"

_LOCK: Final = _RESTORES + "table_lock.py"
_LOCKS: Final = "tests/restores/test_table_lock.py"

METADATA_MUTANTS: Final = (
    Mutant(
        "table lock: a writer's is not taken over",
        _LOCK,
        (('(_owner(warehouse, path) or "").startswith(_OWNER)', "there is not None"),),
        f"{_LOCKS} -k after_the_look",
    ),
    Mutant(
        "table lock: it is given back when a restore fails",
        _LOCK,
        (
            (
                "    try:\n        yield\n    finally:\n        # the next",
                "    yield\n    if not path:\n        # the next",
            ),
        ),
        f"{_LOCKS} -k given_back",
    ),
    Mutant(
        "table lock: that of the next restore is left to it",
        _LOCK,
        (("if _owner(context.warehouse, path) == owner:", "if path:"),),
        f"{_LOCKS} -k left_to_it",
    ),
    Mutant(
        "table lock: what a killed restorer left goes",
        _LOCK,
        (("    left = {path: _owner(context.warehouse, path)", "    left = {path: str()"),),
        f"{_LOCKS} -k whatever_becomes",
    ),
    Mutant(
        "table lock: that of a restore that runs is left to it",
        _LOCK,
        ((" and not _may_be_restoring(context, location)", ""),),
        f"{_LOCKS} -k that_runs",
    ),
    Mutant(
        "table lock: two processes with one request have a lock each",
        _LOCK,
        ((" {uuid.uuid4().hex[:8]}", ""),),
        f"{_LOCKS} -k first_leaves",
    ),
    Mutant(
        "table lock: it is given back before the last outcome is published",
        _RESTORES + "executor.py",
        (("            yield last  #", "                yield last  #"),),
        f"{_LOCKS} -k was_published",
    ),
    Mutant(
        "metadata table: what the rollbacks did goes with them",
        _UNDO,
        (("    gone |= {each for each in rollbacks if each > savepoint.timestamp}\n", ""),),
        f"{_PLANS} -k what_a_rollback_did",
    ),
    Mutant(
        "metadata table: it must have every commit that is rolled back",
        _UNDO,
        (("write.timestamp not in fates.completed:", "not write.timestamp:"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: it must have the savepointed commit",
        _UNDO,
        (("if savepoint.timestamp not in fates.completed:", "if not savepoint.timestamp:"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: its folders are what the table declares",
        _UNDO,
        (("if set(declared) != set(seen.partitions):", "if not declared:"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: there is none without its list of files",
        _UNDO,
        (("    if FILES in dropped:\n", "    if not dropped < seen.partitions.keys():\n"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: what was indexed since the savepoint is a doubt",
        _UNDO,
        (('if (indexing.completion or "~") > bound:', 'if indexing.completion == "~":'),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: log compactions of it are a doubt",
        _UNDO,
        (("if file.action is Action.LOG_COMPACTION:", "if not file.timestamp:"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: what else was done to it since is a doubt",
        _UNDO,
        (("if not (is_known or is_old or", "if not (is_known or is_old or file or"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: a commit of it that is none of the table's is a doubt",
        _UNDO,
        (
            (
                "        elif each.completion and each.timestamp.startswith(_BUILT):\n",
                "        elif each.completion:\n",
            ),
        ),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: the completion dates the building of a partition",
        _UNDO,
        (("    return before and commit", "    return bool(before) or commit"),),
        f"{_PLANS} -k built_after",
    ),
    Mutant(
        "metadata table: a compaction of what was built since goes with it",
        _UNDO,
        (("_is_undone(each, seen, undone | late)", "_is_undone(each, seen, undone)"),),
        f"{_PLANS} -k compacted_too",
    ),
    Mutant(
        "metadata table: a compaction that nobody completed goes",
        _UNDO,
        (("    if compaction.completion is None:\n        return True\n", ""),),
        f"{_PLANS} -k nobody_completed",
    ),
    Mutant(
        "metadata table: a compaction that merged what goes goes too",
        _UNDO,
        (("any(_file(name).instant in undone for _, name in merged)", "not merged"),),
        f"{_PLANS} -k merged_what",
    ),
    Mutant(
        "metadata table: a compaction without its plan is a doubt",
        _UNDO,
        (
            (
                "seen.merged.get(compaction.timestamp)",
                "seen.merged.get(compaction.timestamp, frozenset())",
            ),
        ),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: a file of no commit is a doubt",
        _UNDO,
        (("or instant.startswith(_BUILT) or instant < self.start:", "or instant:"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: what was built at an unknown time is a doubt",
        _UNDO,
        (("if not fates.is_dated(first) or (", "if ("),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: log files whose base file is gone are a doubt",
        _UNDO,
        ((" or (base is None and not first.startswith(_BUILT)):", ":"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: log files of a commit that was archived are a doubt",
        _UNDO,
        (("if any(file.instant > first and", "if any(not file.instant and"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: a commit whose files are gone is a doubt",
        _UNDO,
        (('stat.path.rpartition("/")[2] in present', "stat.path"),),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: while a partition is being built it is dropped",
        _TABLE,
        (
            (
                "    if properties.values.get(METADATA_PARTITIONS[1]):",
                "    if not properties.values:",
            ),
        ),
        f"{_PLANS} -k may_be_wrong",
    ),
    Mutant(
        "metadata table: of table version 6 it is dropped",
        _TABLE,
        (("if properties.layout is not Layout.TWO:", "if not properties.layout:"),),
        f"{_PLANS} -k version_6",
    ),
    Mutant(
        "metadata table: what is rolled back since the plan of an attempt is a doubt",
        _TABLE,
        ((" or not {each.timestamp for each in plan.targets} <= set(undo.gone):", ":"),),
        f"{_CRASHES} -k if_meanwhile",
    ),
    Mutant(
        "metadata table: undeclared before it is taken away",
        _KEEPING,
        (("        if edited != content:\n", "        if edited == content:\n"),),
        f"{_CRASHES} -k no_step",
    ),
    Mutant(
        "metadata table: what was done to the table since is a doubt",
        _KEEPING,
        (("        if stays != self.undo.staying or not", "        if not stays or not"),),
        f"{_CRASHES} -k if_meanwhile",
    ),
    Mutant(
        "metadata table: undone only as the plan saw it",
        _KEEPING,
        (("digest_of(self.warehouse, self._aside) != undo.digest", "not undo.digest"),),
        f"{_CRASHES} -k if_",
    ),
    Mutant(
        "metadata table: what was put back counts only unchanged",
        _KEEPING,
        (("is_alone and digest == digest_of(self.warehouse, self._place)", "is_alone"),),
        f"{_CRASHES} -k if_meanwhile",
    ),
    Mutant(
        "metadata table: what was moved now is looked at, whatever was seen before",
        _KEEPING,
        (
            (
                "        if digest_of(",
                "        if not self._exists(self._seen) and digest_of(",
            ),
        ),
        f"{_CRASHES} -k if_meanwhile",
    ),
    Mutant(
        "metadata table: where Hudi has built another, the old one is never put back",
        _KEEPING,
        (("if error.errno not in _NO_RENAME | _IN_THE_WAY:", "if error.errno not in _NO_RENAME:"),),
        f"{_CRASHES} -k if_meanwhile",
    ),
    Mutant(
        "metadata table: who slept while the restore was completed moves nothing",
        _KEEPING,
        (("                    self._check()\n", ""),),
        f"{_CRASHES} -k two_processes",
    ),
    Mutant(
        "metadata table: nothing stays aside after a restore that Hudi completed",
        _RESTORES + "finished.py",
        (
            (
                "    MetadataKeeper(writer.warehouse, now.location, metadata.started).discard()\n",
                "",
            ),
        ),
        f"{_CRASHES} -k another_completed",
    ),
)
