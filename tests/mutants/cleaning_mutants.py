"""The gate's and the cleaner's rules, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_GATE = "consumers/tidegate/cleaning/gate_decision.py"
_STATE = "consumers/tidegate/cleaning/gate_state.py"
_INDEX = "consumers/tidegate/cleaning/gate_index.py"
_PRODUCTS = "consumers/tidegate/cleaning/products.py"
_PLAN = "consumers/tidegate/cleaning/plan.py"
_VACUUM = "schemas/tidegate/hive/compaction.py"
_GATE_TESTS = "tests/cleaning/test_gate.py"
_CLEANER_TESTS = "tests/cleaning/test_plan.py tests/cleaning/test_cleaner.py"
_HIVE_TESTS = "tests/hive"


def _gate(rule: str, old: str, new: str, file: str = _GATE) -> Mutant:
    return Mutant(f"gate: {rule}", file, ((old, new),), _GATE_TESTS)


CLEANING_MUTANTS = (
    Mutant(
        "gate: a packed record expands to a limit only",
        _STATE,
        (("reader.decompress(record, MAX_UNPACKED)", "reader.decompress(record)"),),
        "tests/cleaning/test_gate_records.py",
    ),
    Mutant(
        "gate: the largest record that is written has room for being overdue",
        "consumers/tidegate/cleaning/gate_state.py",
        (("limit = MAX_UNPACKED - _OVERDUE if", "limit = MAX_UNPACKED if"),),
        "tests/cleaning/test_gate_records.py -k waits_too_long",
    ),
    Mutant(
        "gate: a record that could not be read again is not written",
        _STATE,
        (("    if len(record) > limit or ", "    if not record or "),),
        "tests/cleaning/test_gate_records.py",
    ),
    Mutant(
        "gate: of very many holds few are looked at, in whatever order they end",
        _STATE,
        (("        if len(holds) > _WIDE:\n", "        if not holds:\n"),),
        "tests/cleaning/test_gate_records.py",
    ),
    Mutant(
        "gate: the state of a vacuum with very many locks stays below a message",
        _STATE,
        (("    is_wide = len(vacuum.locks) > _WIDE\n", "    is_wide = False\n"),),
        "tests/cleaning/test_gate_records.py",
    ),
    _gate(
        "a vacuum waits for its last hold",
        "        for hold in holds:\n",
        "        for hold in list(holds)[:1]:\n",
        _INDEX,
    ),
    _gate(
        "an open transaction is a hold",
        "for txn in self.transactions]",
        "for txn in ()]",
        _STATE,
    ),
    _gate(
        "a release that came before its vacuum is remembered",
        "        self.released += index.released.add(ended)\n",
        "        self.released += [each for each in ended if each in index.released]\n",
    ),
    _gate(
        "what ended is remembered by the next process too",
        "released, cleaned = state.released + released, state.cleaned + cleaned",
        "released, cleaned = released, state.cleaned + cleaned",
    ),
    _gate(
        "a vacuum published again with more holds waits for all of them",
        "        merged = replace(before, locks=locks, transactions=txns)",
        "        merged = before",
    ),
    _gate(
        "a vacuum published again is not released again",
        "        if now.content in done or",
        "        if not now.content or",
    ),
    _gate(
        "a corrected vacuum counts",
        "        if now.content in done or",
        "        if itself in done or",
    ),
    _gate(
        "a correction keeps the holds of the first publication",
        "since=before.since, locks=locks, transactions=txns)",
        "since=before.since)",
    ),
    _gate(
        "a lock id is no transaction id",
        "    return 2 * transaction_id + 1\n",
        "    return 2 * transaction_id\n",
        _INDEX,
    ),
    _gate(
        "a lock ends with its transaction",
        "            else (2 * lock_id, 2 * txn + 1)",
        "            else (2 * lock_id,)",
        _STATE,
    ),
    _gate(
        "what a waiting vacuum lists is not forgotten",
        "needed = self._needed() if index.waiting else frozenset[int]()",
        "needed = frozenset[int]()",
    ),
    _gate(
        "what is forgotten leaves a mark",
        "        if forgotten:\n",
        "        if not forgotten:\n",
    ),
    _gate(
        "a vacuum that may wait for a forgotten release is flagged",
        "        if unknown:\n",
        "        if not unknown:\n",
    ),
    _gate(
        "what is remembered is bounded by number",
        "(old.has_old(before) or len(old) > limit):",
        "(old.has_old(before)):",
    ),
    _gate(
        "what is remembered is bounded by age",
        "(old.has_old(before) or len(old) > limit):",
        "(len(old) > limit):",
    ),
    Mutant(
        "gate: a vacuum whose command no topic takes is refused at once",
        "consumers/tidegate/cleaning/gate_commands.py",
        (("    if size > MAX_COMMAND_BYTES:\n", "    if size > 2 * MAX_COMMAND_BYTES:\n"),),
        "tests/cleaning/test_gate.py",
    ),
    _gate(
        "no chunk is large, however many vacuums one release frees",
        "            part = tuple(ids[start : start + LARGEST_CHUNK])\n",
        "            part = tuple(ids[start:]) if start == 0 else ()\n",
    ),
    _gate(
        "the record of a vacuum with very many holds is small",
        "return record if len(record) <= _PACKED_ABOVE else zlib.compress(record)",
        "return record",
        _STATE,
    ),
    _gate(
        "nothing is decided on a vacuum that can't be read",
        "            raise StopService(",
        "            raise ValueError(",
        _STATE,
    ),
    Mutant(
        "cleaner: only what this vacuum made obsolete",
        _VACUUM,
        (("self.reaches(acid) and not self.is_product(acid) and", "self.reaches(acid) and"),),
        f"{_HIVE_TESTS} {_CLEANER_TESTS}",
    ),
    Mutant(
        "cleaner: a later vacuum's leftovers are that vacuum's",
        _VACUUM,
        (
            (
                "return self.reaches(acid) and not self.is_product(acid)",
                "return not self.is_product(acid)",
            ),
        ),
        f"{_HIVE_TESTS} {_CLEANER_TESTS}",
    ),
    Mutant(
        "cleaner: what goes is covered by a product that stays",
        _PRODUCTS,
        (("            if covers(product, each.acid):\n", "            if True:\n"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: a product is there and complete",
        _PRODUCTS,
        (
            (
                "complete = [each for each in products if each.is_complete]",
                "complete = products",
            ),
        ),
        _CLEANER_TESTS,
    ),
    Mutant(
        "cleaner: another table's vacuum at the same place is known by its transaction",
        _VACUUM,
        (("return self.own_txn is None or acid.visibility_txn == self.own_txn", "return True"),),
        "tests/cleaning/test_plan.py -k earlier_table",
    ),
    Mutant(
        "cleaner: a base of no rows has Hive's version file",
        _PRODUCTS,
        (("expected and has_version", "expected"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: a base of no rows stands beside what deleted them",
        _PLAN,
        (("    check_empty_base(products, entries, obsolete)\n", ""),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: deletes outlive the rows that they delete",
        _PLAN,
        (('phases[each.name.startswith("delete_delta_")]', "phases[0]"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: nothing outside the warehouse roots",
        "consumers/tidegate/tables/warehouse/roots.py",
        (('raise ConfinementError(f"{location} is', 'return where or str(f"{location} is'),),
        "tests/tables/warehouse tests/cleaning/test_cleaner.py",
    ),
    Mutant(
        "every executor: one table is not reached under another's name",
        "producers/tidegate/storage/local.py",
        (("        raise ReachedByLink(", "        return print("),),
        "tests/tables/warehouse tests/cleaning/test_cleaner.py"
        " tests/savepoints/test_savepoint_writer.py",
    ),
    Mutant(
        "every executor: a refusal can be written, whatever a file is called",
        "consumers/tidegate/tables/refusal.py",
        (("self.message = readable(message)", "self.message = message"),),
        "tests/savepoints/test_savepoint_writer.py tests/restores/test_restorer.py",
    ),
    Mutant(
        "restores: a pending write that moves is a living writer's",
        "consumers/tidegate/restores/watching.py",
        (("    if not moved:\n", "    if moved or not moved:\n"),),
        "tests/restores/test_restore_watches.py",
    ),
    Mutant(
        "restores: what Tidegate itself does meanwhile is no writer's",
        "consumers/tidegate/restores/watching.py",
        (("Action.RESTORE, Action.ROLLBACK})", "Action.RESTORE})"),),
        "tests/restores/test_restore_watches.py",
    ),
    Mutant(
        "restores: pending writes are watched, also before a restore is resumed",
        "consumers/tidegate/restores/preparation.py",
        (("    watch_writers(table, context)\n", ""),),
        "tests/restores/test_restore_watches.py",
    ),
    Mutant(
        "savepoints: a name that no metadata can hold is found before anything is written",
        "producers/tidegate/hudi_reader/partitions.py",
        (("    if strange:\n", "    if False:\n"),),
        "tests/savepoints/test_savepoint_writer.py",
    ),
)
