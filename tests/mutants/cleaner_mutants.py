"""The cleaner's rules about a table that changes, and about Hive 3, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_FOLDER = "consumers/tidegate/tables/warehouse/open_folder.py"
_KNOWN = "consumers/tidegate/tables/warehouse/known_directory.py"
_REMOVAL = "consumers/tidegate/cleaning/removal.py"
_COMPACTION = "schemas/tidegate/hive/compaction.py"

CLEANER_MUTANTS = (
    Mutant(
        "cleaner: a vacuum's own products are compacted, whatever their names say",
        _COMPACTION,
        (("each._replace(compacted=True) if self.is_product(each.acid) else each", "each"),),
        "tests/hive/test_compaction.py",
    ),
    Mutant(
        "cleaner: the base of an insert overwrite that was open stays",
        _COMPACTION,
        (
            (
                "if isinstance(acid, Delta) else acid.write_id",
                "if isinstance(acid, Delta) else acid.write_id + 1",
            ),
        ),
        "tests/hive/test_compaction.py",
    ),
    Mutant(
        "cleaner: a base above the high-water mark judges nothing (HIVE-29601)",
        _COMPACTION,
        (
            (
                "return above_range or found.acid.write_id > self.write_ids.high_water_mark",
                "return above_range",
            ),
        ),
        "tests/hive/test_compaction.py",
    ),
    Mutant(
        "cleaner: what an expired hold releases is quarantined by default",
        "consumers/tidegate/cleaning/rules.py",
        (("if mode is CleaningMode.DELETE and command.after_expiry:", "if False:"),),
        "tests/cleaning/test_quarantine.py",
    ),
    Mutant(
        "cleaner: a vacuum waits while a later one's cleaning is under way",
        "consumers/tidegate/cleaning/superseded.py",
        (("    if names and left:\n", "    if False:\n"),),
        "tests/cleaning/test_superseded.py",
    ),
    Mutant(
        "cleaner: a refusal after the removal is not a clean table",
        "consumers/tidegate/cleaning/executor.py",
        (
            (
                'raise TransientError(f"the table changed during cleaning',
                'return  # (f"',
            ),
        ),
        "tests/cleaning/test_removal.py",
    ),
    Mutant(
        "cleaner: no delete delta goes while its rows stay",
        _REMOVAL,
        (("        if errors:\n            return errors\n", ""),),
        "tests/cleaning/test_removal.py",
    ),
    Mutant(
        "cleaner: a table that was replaced since the plan is left alone",
        _REMOVAL,
        (
            (
                "    return files == directory.files or",
                "    return True or",
            ),
        ),
        "tests/cleaning/test_removal.py",
    ),
    Mutant(
        "cleaner: what a file system never removes is not tried for an hour",
        "consumers/tidegate/cleaning/executor.py",
        (("    if lasting and len", "    if False and len"),),
        "tests/cleaning/test_removal.py",
    ),
    Mutant(
        "cleaner: nothing goes once a product of the vacuum has changed",
        _REMOVAL,
        (("                if found is None or", "                if False and"),),
        "tests/cleaning/test_removal.py",
    ),
    Mutant(
        "warehouse: what appears after the look is looked at before it goes",
        _FOLDER,
        (("whole=attempt > 0", "whole=True"),),
        "tests/tables/warehouse/test_open_folder.py",
    ),
    Mutant(
        "warehouse: no mounted file system is emptied with a directory",
        _FOLDER,
        (("st_dev != self.device", "st_dev == -1"),),
        "tests/tables/warehouse/test_open_folder.py",
    ),
    Mutant(
        "warehouse: a directory that changed since it was listed is listed again",
        _KNOWN,
        (("        return identity_of(", "        return True or identity_of("),),
        "tests/tables/warehouse/test_known_directory.py",
    ),
    Mutant(
        "warehouse: what changed just now may change again without a new time",
        _KNOWN,
        ((" or any(\n            each[_CHANGED] > latest", " or any(\n            False"),),
        "tests/tables/warehouse/test_known_directory.py",
    ),
)
