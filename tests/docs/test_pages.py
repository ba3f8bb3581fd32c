"""What README.md and CONTRIBUTING.md show is run, or at least understood by its program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from support.architecture import with_reasons
from support.kafka import create_topic
from tidegate.cli import app
from tidegate.service.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PAGES = {
    page.stem: page.read_text("utf-8")
    for page in sorted((ROOT / "docs").glob("*.md"))
    if "<!-- made by" not in page.read_text("utf-8")
}
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[str]:
    return [each["text"] for each in _BLOCK.finditer(text) if each["language"] == language]


def commands(text: str) -> list[str]:
    """Every line of a shell block: continued lines joined, comments and redirections left out."""
    joined = "".join(blocks(text, "")).replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*|\s+>.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def understood(command: object, words: list[str]) -> None:
    """Parse words as the program does, without running anything."""
    if isinstance(command, TyperGroup):
        context = command.make_context("tidegate", list(words), resilient_parsing=True)
        _, child, rest = command.resolve_command(context, list(words))
        understood(child, rest)
    else:
        assert isinstance(command, TyperCommand)
        command.make_context("tidegate", list(words))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(command, id=f"{name}: {command}")
        for name, page in {"README": README, **PAGES}.items()
        for command in commands(page)
        if command.startswith("tidegate")
    ],
)
def test_every_command_of_the_pages_is_one(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with suppress(typer.Exit):  # --help and --version end there; a wrong option is a UsageError
        understood(typer.main.get_command(app), shlex.split(line)[1:])


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_make_target_that_is_shown_is_there(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    shown = set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)", text))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    assert shown <= targets | {"sure"}


@pytest.mark.parametrize(
    "block", [block for page in (README, *PAGES.values()) for block in blocks(page, "toml")]
)
def test_every_settings_file_of_the_pages_is_valid(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    file = tmp_path / "tidegate.toml"
    file.write_text(block)

    settings = Settings.load(file)

    assert set(tomllib.loads(block)) <= set(type(settings).model_fields)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Links between pages included."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.kafka
@pytest.mark.parametrize(
    "block", [block for page in (README, *PAGES.values()) for block in blocks(page, "python")]
)
def test_the_python_of_the_pages_runs(
    block: str, bootstrap_servers: str, topic_prefix: str
) -> None:
    """On a real broker, under topic names of its own."""
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    source = block.replace('"broker:9092"', f"{bootstrap_servers!r}, prefix={topic_prefix!r}")

    exec(compile(source, "README.md", "exec"), {})  # noqa: S102 - that is the test


def test_the_table_of_reasons_is_the_documented_list() -> None:
    assert with_reasons(README) == README, "run: make docs"
