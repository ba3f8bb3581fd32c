"""The audit never calls the lock clean where it knows nothing of it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

AUDIT = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "audit.py"))
CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}
BAD = {"name": "urllib3", "version": "1.24.1", "vulns": [{"id": "PYSEC-2019-133"}]}
UNKNOWN = {"name": "typer", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("dependencies", "code", "sentence"),
    [
        ([CLEAN], 0, "no vulnerability is known in 1 packages"),
        ([CLEAN, BAD], 1, "urllib3 1.24.1: PYSEC-2019-133"),
        ([UNKNOWN, BAD], 1, "urllib3"),
        ([CLEAN, UNKNOWN], 3, "no data on 1 of 2 packages"),
        ([], 3, "no data on 0 of 0 packages"),
    ],
)
def test_a_package_that_could_not_be_looked_up_is_not_clean(
    dependencies: list[dict[str, Any]], code: int, sentence: str
) -> None:
    found, said = AUDIT["verdict"](dependencies)

    assert found == code
    assert sentence in said
