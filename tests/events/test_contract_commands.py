"""What a writer in another language takes away: the schemas as files, and the AsyncAPI document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest  # noqa: TC002 - its fixtures are annotated where pytest looks
from typer.testing import CliRunner

from support.json_lines import json_lines
from tidegate.cli import app
from tidegate.errors import ConfigError
from tidegate.events.codec import schema_text
from tidegate.events.topics import EVENT_TYPES


def test_every_schema_is_exported_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "schemas"

    answer = CliRunner().invoke(app, ["schemas", "export", str(folder)])

    assert (answer.exit_code, answer.stdout) == (0, f"{len(EVENT_TYPES)} schemas in {folder}\n")
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        f"{name}.avsc": schema_text(name) for name in EVENT_TYPES
    }


def test_for_scripts_the_export_names_its_files(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["schemas", "export", str(tmp_path), "--json"])

    files = [str(file) for file in sorted(tmp_path.iterdir())]
    assert [line["file"] for line in json_lines(answer.stdout)] == files


def test_a_folder_that_cannot_be_written_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    answer = CliRunner().invoke(app, ["schemas", "export", str(tmp_path / "file")])

    assert isinstance(answer.exception, ConfigError)
    assert str(tmp_path / "file") in str(answer.exception)


def test_the_document_is_of_the_deployment_that_the_settings_describe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[topics]\nprefix = "lake"\npartitions = 12\nreplication = 3\n')
    monkeypatch.setenv("TIDEGATE_CONFIG", str(file))

    answer = CliRunner().invoke(app, ["asyncapi"])

    locks = json.loads(answer.stdout)["channels"]["locks"]
    assert locks["address"] == "lake.locks"
    assert locks["bindings"]["kafka"]["partitions"] == 12
    assert locks["bindings"]["kafka"]["replicas"] == 3
