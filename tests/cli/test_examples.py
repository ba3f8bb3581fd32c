"""Commands show examples in their help, and every example is one that the command accepts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.cli.examples import EXAMPLES

ENDS = ("|", ">")


def commands(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's
    for name, command in getattr(found, "commands", {}).items():
        yield from commands(command, f"{path}{name} ")
    if not hasattr(found, "commands"):
        yield path.strip(), found


ALL = dict(commands(typer.main.get_command(app)))


def test_every_example_is_of_a_command_that_there_is() -> None:
    assert set(EXAMPLES) <= set(ALL)


@pytest.mark.parametrize("example", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_an_example_is_one_that_the_command_accepts(example: str) -> None:
    """It is parsed as typed, up to a pipe or a redirection; nothing is carried out."""
    words = shlex.split(example)
    own = words[1 : next((n for n, word in enumerate(words) if word in ENDS), len(words))]
    name = next(words for words in (" ".join(own[:2]), own[0]) if words in ALL)

    ALL[name].make_context(name, own[len(name.split()) :])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_help_ends_with_the_examples(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "300"}).output

    assert "Examples:" in shown
    for line in EXAMPLES[name]:
        assert f"  {line}\n" in shown


@pytest.mark.parametrize("name", [*EXAMPLES, ""])
def test_help_has_a_short_option(name: str) -> None:
    short, long = (
        CliRunner().invoke(app, [*name.split(), flag]).output for flag in ("-h", "--help")
    )

    assert short == long
    assert short.startswith("Usage: ")
