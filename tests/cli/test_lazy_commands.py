"""A command imports what it needs, and nothing of the others: a person waits for every import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidegate.cli.tree import SECTIONS

LIBRARIES = ("pydantic", "confluent_kafka", "fastavro", "rich", "asyncio", "fsspec", "pyspark")

COMMANDS = {name: entry for group in SECTIONS.values() for name, entry in group.items()}


def imported(*arguments: str) -> set[str]:
    """The modules that a command has imported at its end."""
    program = (
        f"import sys; sys.argv = {['tidegate', *arguments]!r}\n"
        "from tidegate.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert shown.returncode == 0, shown.stderr
    return set(shown.stderr.split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_list_of_commands_imports_no_command_and_no_library(option: str) -> None:
    found = imported(option)

    assert "typer" in found
    assert found & set(LIBRARIES) == set()
    assert [
        name for name in found if name.startswith(("tidegate.events", "tidegate.service"))
    ] == []


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        pytest.param(
            command,
            ("fsspec", "pyspark", "pydantic_settings", "rich", "tidegate.cleaning.plan", *others),
            id=command,
        )
        for command, others in {
            "status": ("tidegate.restores.plan", "tidegate.savepoints.plan", "tidegate.cli.repair"),
            "outcomes": ("tidegate.coordinator.rows.store", "tidegate.ops.waiting"),
            "waiting": ("tidegate.restores.plan", "tidegate.ops.replay", "tidegate.cli.setup"),
        }.items()
    ],
)
def test_a_command_imports_nothing_of_the_others(command: str, unwanted: tuple[str, ...]) -> None:
    found = imported(command, "--help")

    assert f"tidegate.cli.{COMMANDS[command].module}" in found
    assert found & set(unwanted) == set()
