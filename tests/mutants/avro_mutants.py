"""The rules for schemas that others wrote, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_CHECK = "schemas/tidegate/avro/writer_schema.py"
_FOREIGN = "tests/events/test_foreign_schemas.py"

AVRO_MUTANTS = (
    Mutant(
        "items of an array take bytes",
        _CHECK,
        (("(item.size + key_bytes)", "(1 + item.size + key_bytes)"),),
        f"{_FOREIGN} -k beyond",
    ),
    Mutant(
        "types that multiply are counted where they are used",
        _CHECK,
        (("        if types > self.limits.types:\n", "        if size > self.limits.types:\n"),),
        f"{_FOREIGN} -k beyond",
    ),
    Mutant(
        "a logical type that is not listed is refused",
        _CHECK,
        (
            (
                "not isinstance(logical, str) or logical not in allowed",
                "not isinstance(logical, str)",
            ),
        ),
        f"{_FOREIGN} -k beyond",
    ),
    Mutant(
        "a nested schema is refused before it is walked",
        _CHECK,
        (("    _check_depth(schema, limits.depth)\n", ""),),
        f"{_FOREIGN} -k beyond",
    ),
)
