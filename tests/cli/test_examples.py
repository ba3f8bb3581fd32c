"""Commands show examples in their help, and every example is one that the command accepts."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from support.commands import ALL, EXAMPLES
from tidegate.cli import app

ENDS = ("|", ">")


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
