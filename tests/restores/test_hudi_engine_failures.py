"""`engine = "hudi"`: what Spark does not understand is said at once, and not tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException, ParseException

from support.hudi_tables import at, four_commits
from tidegate.errors import FormatError
from tidegate.hudi_reader.table import load_table
from tidegate.restores.hudi_engine import restore_by_hudi
from tidegate.storage import Storage


class NoHudi:
    """A Spark session without Hudi's extension, as far as it is called."""

    def __init__(self, error: Exception) -> None:
        self.error, self.conf = error, self

    def newSession(self) -> NoHudi:  # noqa: N802 - Spark's
        return self

    def set(self, key: str, value: str) -> None:
        """A setting."""

    def sql(self, _: str) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        ParseException(
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'CALL'.(line 1)\n\n== SQL =="
        ),
        AnalysisException("[ROUTINE_NOT_FOUND] no rollback_to_savepoint"),
    ],
)
def test_a_session_without_hudi_fails_the_restore_with_its_words(
    tmp_path: Path, error: Exception
) -> None:
    table = load_table(Storage(), four_commits(tmp_path / "orders", 9).location)
    with pytest.raises(FormatError, match=r"Hudi's bundle is there: \[[A-Z]"):
        restore_by_hudi(lambda: cast("Any", NoHudi(error)), table, at(2), at(9))
