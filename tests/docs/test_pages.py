"""What the pages show is run, or at least understood by its program; their links resolve."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from support.blocks import blocks_of, section, sessions
from support.kafka import create_topic
from support.samples import commit
from tidegate.cli import app
from tidegate.errors.commands import command_line
from tidegate.events.codec import encode
from tidegate.service.settings import Settings

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("schemas", "producers", "consumers")
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PAGES = {
    page.stem: page.read_text("utf-8")
    for page in sorted((ROOT / "docs").glob("*.md"))
    if "<!-- made by" not in page.read_text("utf-8")
}
SHELL = {"", "sh", "console"}


def commands(page: str) -> Iterator[str]:
    """Every command of the shell blocks: continued lines joined, comments and redirections out."""
    for language, text in blocks_of(page):
        if language in SHELL:
            shown = "\n".join(typed for typed, _ in sessions(text)) if "$ " in text else text
            lines = shown.replace("\\\n", " ").splitlines()
            cut = (re.sub(r"\s+#.*|\s+2?>.*|\s+&$", "", line).strip() for line in lines)
            yield from (line for line in cut if line)


def in_language(page: str, language: str) -> list[str]:
    return [text for found, text in blocks_of(page) if found == language]


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
        pytest.param(line, id=f"{name}: {line}")
        for name, page in {"README": README, **PAGES}.items()
        for line in commands(page)
        if line.startswith("tidegate")
    ],
)
def test_every_command_of_the_pages_is_one(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with suppress(typer.Exit):  # --help and --version end there; a wrong option is a UsageError
        understood(typer.main.get_command(app), shlex.split(line)[1:])


SOURCES = [file for root in SOURCE_ROOTS for file in sorted((ROOT / root).rglob("*.py"))]
ALERTS = ROOT / "tests" / "support" / "alerts.py"


def suggestions(source: str) -> Iterator[tuple[int, str]]:
    """The commands that a module suggests; a value that is only known later is a 1."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "command_line":
            words = [_value(word) for word in node.args]
            options = {keyword.arg or "**": _value(keyword.value) for keyword in node.keywords}
            yield node.lineno, command_line(str(words[0]), *words[1:], **options)


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else 1


def test_every_command_that_the_program_suggests_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    files = (*SOURCES, ALERTS)
    found = [line for file in files for _, line in suggestions(file.read_text("utf-8"))]

    for line in found:
        with suppress(typer.Exit):
            understood(typer.main.get_command(app), shlex.split(line)[1:])
    assert len(found) > 20


def test_no_message_writes_a_command_by_itself() -> None:
    """In backquotes a command is only named; whatever is to be pasted is made by command_line."""
    names = "|".join(getattr(typer.main.get_command(app), "commands", ()))
    by_itself = re.compile(rf"(?<!`)\btidegate ({names})\b(?!`)")
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for file in SOURCES
        if file.name != "examples.py"
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if "\n" not in node.value and by_itself.search(node.value)
    ]

    assert wrong == []


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_make_target_that_is_shown_is_there(text: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    shown = set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)", text))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    assert shown <= targets | {"sure"}


@pytest.mark.parametrize(
    "block", [text for page in (README, *PAGES.values()) for text in in_language(page, "toml")]
)
def test_every_settings_file_of_the_pages_is_valid(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    file = tmp_path / "tidegate.toml"
    file.write_text(block)

    settings = Settings.load(file)

    assert set(tomllib.loads(block)) <= set(type(settings).model_fields)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. Links between pages, their anchors, and pages outside the nav are warnings."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_is_built_without_a_warning_and_every_page_is_in_its_navigation(
    site: Path,
) -> None:
    home = (site / "index.html").read_text("utf-8")

    assert all(f'href="{name}/"' in home for name in PAGES if name != "index")


def test_a_telephone_breaks_no_option_after_its_first_dash(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")

    assert re.search(
        r"<td><code>tidegate outcomes .*<span class=\"option\">--since</span> 7d", home
    )
    assert ".option { white-space: nowrap }" in (site / "site.css").read_text("utf-8")


def test_the_site_fetches_nothing_from_outside(site: Path) -> None:
    fetched = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//[^>]*>")
    pages = list(site.rglob("*.html"))

    assert pages
    assert [found for page in pages for found in fetched.findall(page.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "page", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "compose/README.md"]
)
def test_every_relative_link_outside_the_site_leads_to_a_file(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)

    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_the_readme_is_read_in_two_minutes() -> None:
    lines = README.splitlines()

    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100


def test_the_pictures_are_those_of_their_text() -> None:
    drawn = runpy.run_path(str(ROOT / ".ci" / "pictures.py"))["drawn"]()

    assert {
        name: (ROOT / "docs" / "images" / name).read_text("utf-8") for name in drawn
    } == drawn, "run: make pictures"


def test_the_site_lists_every_module_with_its_first_line(site: Path) -> None:
    listed = (site / "modules" / "index.html").read_text("utf-8")
    modules = [path for root in SOURCE_ROOTS for path in (ROOT / root / "tidegate").rglob("*.py")]

    assert listed.count("<li><code>") == len(modules)
    assert re.findall(r"<li><code>(.*)</code>:\s*</li>", listed) == []  # without docstring


@pytest.mark.kafka
@pytest.mark.parametrize("heading", ["From Python", "A vacuum by hand"])
def test_the_python_that_publishes_runs(
    bootstrap_servers: str, topic_prefix: str, heading: str
) -> None:
    """On a real broker, under topic names of its own."""
    for topic in ("commits", "vacuums", "locks"):
        create_topic(bootstrap_servers, f"{topic_prefix}.{topic}")
    [block] = in_language(section(PAGES["publish"], heading), "python")

    run(block.replace('"broker:9092"', f"{bootstrap_servers!r}, prefix={topic_prefix!r}"))


def test_both_ways_to_decode_in_python_print_the_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exported = [sys.executable, "-m", "tidegate.cli", "schemas", "export", "avsc"]
    subprocess.run(exported, check=True, capture_output=True)
    event = commit(1)

    for block in in_language(section(PAGES["schemas"], "Decode in Python"), "python"):
        run(block, value=encode(event))

    assert capsys.readouterr().out.splitlines() == [f"{event.table} {event.instant}"] * 2


JARS = Path(pyspark.__file__).parent / "jars"


@pytest.mark.skipif(shutil.which("javac") is None, reason="a JDK 17 is not installed")
def test_the_way_to_decode_in_java_prints_the_event(tmp_path: Path) -> None:
    exported = [sys.executable, "-m", "tidegate.cli", "schemas", "export", "avsc"]
    subprocess.run(exported, check=True, capture_output=True, cwd=tmp_path)
    [block] = in_language(section(PAGES["schemas"], "Decode in Java"), "java")
    (tmp_path / "Decode.java").write_text(block)
    event = commit(1)

    shown = subprocess.run(
        ["java", "-cp", f"{JARS}/*", "Decode.java"],
        input=encode(event),
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )

    assert shown.stdout.decode() == f"{event.table} {event.instant}\n"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_the_way_to_decode_in_go_prints_the_event(tmp_path: Path) -> None:
    """With the version that the page names; Go's own cache has its modules after the first run."""
    exported = [sys.executable, "-m", "tidegate.cli", "schemas", "export", "avsc"]
    subprocess.run(exported, check=True, capture_output=True, cwd=tmp_path)
    text = section(PAGES["schemas"], "Decode in Go")
    [block] = in_language(text, "go")
    (tmp_path / "main.go").write_text(block)
    [(module, version)] = re.findall(r"`(github\.com/\S+)` (\d+\.\d+)", text)
    for arguments in (("mod", "init", "decode"), ("get", f"{module}@v{version}")):
        fetched = subprocess.run(["go", *arguments], check=False, capture_output=True, cwd=tmp_path)
        if fetched.returncode != 0:
            pytest.skip(f"Go can't fetch {module} here: {fetched.stderr.decode()[-300:]}")
    event = commit(1)

    shown = subprocess.run(
        ["go", "run", "."], input=encode(event), capture_output=True, check=True, cwd=tmp_path
    )

    assert shown.stdout.decode() == f"{event.table} {event.instant}\n"


def run(block: str, **names: object) -> None:
    exec(compile(block, "a page", "exec"), dict(names))  # noqa: S102 - that is the test
