"""The savepoints that a table has, listed from the table itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.hudi_tables import at, four_commits, savepoint_request, ticking, warehouse_over
from tidegate.cli import app
from tidegate.compute.parallel_map import ThreadMap
from tidegate.savepoints.executor import SavepointWriter


def listed(folder: Path, *arguments: str) -> str:
    file = folder / "tidegate.toml"
    file.write_text(f'[warehouse]\nroots = ["{folder}"]\n')
    answer = CliRunner().invoke(app, ["savepoints", "list", *arguments, "-c", str(file)])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert answer.exit_code == 0
    return answer.output


@pytest.mark.parametrize("version", [6, 9])
def test_a_tables_savepoints_are_listed_with_who_asked_and_why(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    assert "has no savepoint" in listed(tmp_path, table.location)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())
    for minute in (2, 3):
        command = savepoint_request(table, at(minute), comment="before \x1b[2Jthe load")
        assert list(writer.execute(command))

    rows = [json.loads(line) for line in listed(tmp_path, table.location, "--json").splitlines()]

    assert [(row["savepoint"], row["state"]) for row in rows] == [
        (at(2), "completed"),
        (at(3), "completed"),
    ]
    assert rows[0]["requested_by"] == "ada"
    assert rows[0]["files"] == 2
    shown = listed(tmp_path, table.location)
    assert "before \\x1b[2Jthe load" in shown
    assert "\x1b" not in shown
