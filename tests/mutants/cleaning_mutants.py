"""The gate's and the cleaner's rules, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_GATE = "consumers/tidegate/cleaning/gate.py"
_WAITING = "consumers/tidegate/cleaning/waiting.py"
_MEMORY = "consumers/tidegate/cleaning/memory.py"
_PRODUCTS = "consumers/tidegate/cleaning/products.py"
_PLAN = "consumers/tidegate/cleaning/plan.py"
_VACUUM = "schemas/tidegate/hive/vacuum.py"
_GATE_TESTS = "tests/cleaning/test_gate.py"
_CLEANER_TESTS = "tests/cleaning/test_plan.py tests/cleaning/test_cleaner.py"
_HIVE_TESTS = "tests/hive"


def _gate(rule: str, old: str, new: str, file: str = _GATE) -> Mutant:
    return Mutant(f"gate: {rule}", file, ((old, new),), _GATE_TESTS)


CLEANING_MUTANTS = (
    _gate(
        "a vacuum waits for its last hold",
        "return not self.locks and not self.transactions",
        "return not self.locks or not self.transactions",
        _WAITING,
    ),
    _gate(
        "an open transaction is a hold",
        "return not self.locks and not self.transactions",
        "return not self.locks",
        _WAITING,
    ),
    _gate(
        "a lock's release that came early is remembered",
        "for each in locks if each.lock_id not in released",
        "for each in locks",
        _WAITING,
    ),
    _gate(
        "a transaction's end that came early is remembered",
        "for each in txns if each not in ended",
        "for each in txns",
        _WAITING,
    ),
    _gate(
        "every release is remembered, not only those that nobody waited for",
        "        if lock is not None:\n",
        "        if lock is not None and not waiting:\n",
    ),
    _gate(
        "a vacuum told again with other holds waits for all of them",
        "            locks=(*self.locks, *(each",
        "            locks=(*(), *(each",
        _WAITING,
    ),
    _gate(
        "a vacuum told again waits for nothing that was gone and is forgotten",
        "known = {*self.gone_locks, *(each",
        "known = {*(each",
        _WAITING,
    ),
    _gate(
        "a vacuum told again after its release is not released again",
        "        if heard(state.released_vacuums, key):\n",
        "        if False:\n",
    ),
    _gate(
        "a vacuum whose holds are gone when it arrives goes at once",
        "if state.waiting else Decision(state)",
        "if state.waiting and isinstance(event, LockReleased) else Decision(state)",
    ),
    _gate(
        "a lock id is no transaction id",
        "for each in self.transactions if each != txn)",
        "for each in self.transactions if each not in (txn, lock))",
        _WAITING,
    ),
    _gate(
        "a release of one lock frees no other",
        "if each.lock_id != lock)",
        "if each.lock_id == lock)",
        _WAITING,
    ),
    _gate(
        "what is remembered is bounded by number",
        "memory[max(0, len(memory) + 1 - bounds.pages) :]",
        "memory",
        _MEMORY,
    ),
    _gate(
        "what is remembered is bounded by age",
        "    while has_old(kept, before):\n",
        "    while not kept and has_old(kept, before):\n",
        _MEMORY,
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
        (("if not any(covers(product, each.acid) for product in whole):", "if False:"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: a product is there and complete",
        _PRODUCTS,
        (
            (
                "for entry, each in pairs if _has_bucket(entry) or is_emptied(entry, each)]",
                "for entry, each in pairs]",
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
        (("alone and files[0].size > 0 and not files[0].is_link", "(alone or not files)"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: a base of no rows stands beside what deleted them",
        _PLAN,
        (("        check_emptied(vacuum, listing, found, obsolete)\n", ""),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: deletes outlive the rows that they delete",
        _PLAN,
        (('waves[each.name.startswith("delete_delta_")]', "waves[0]"),),
        "tests/cleaning/test_plan.py",
    ),
    Mutant(
        "cleaner: nothing outside the warehouse roots",
        "consumers/tidegate/warehouse/roots.py",
        (('raise ConfinementError(f"{location} lies', 'return where or str(f"{location} lies'),),
        "tests/warehouse tests/cleaning/test_cleaner.py",
    ),
    Mutant(
        "every executor: one table is not reached under another's name",
        "consumers/tidegate/warehouse/roots.py",
        (("            raise ReachedByLink(", "            return where or str("),),
        "tests/warehouse tests/cleaning/test_cleaner.py tests/savepoints/test_savepoint_writer.py",
    ),
    Mutant(
        "every executor: a refusal can be written, whatever a file is called",
        "consumers/tidegate/refusals/__init__.py",
        (('"message", readable(self.message)', '"message", self.message'),),
        "tests/cleaning/test_cleaner.py tests/savepoints/test_savepoint_writer.py",
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
        "restores: a resumed restore watches too",
        "consumers/tidegate/restores/preparation.py",
        (("        granted(watch_writers(table, tools))\n        return", "        return"),),
        "tests/restores/test_restore_watches.py",
    ),
    Mutant(
        "savepoints: a name that no metadata can hold is found before anything is written",
        "producers/tidegate/hudi_reader/partitions.py",
        (("    if strange:\n", "    if False:\n"),),
        "tests/savepoints/test_savepoint_writer.py",
    ),
)
