"""The shape of the house: who may write, what is pure, where a package lies, how long it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from support.architecture import impure, layers_of, misplaced, writes

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
FLOORS = ("consumers", "producers", "schemas")
PREVIOUS = "schemas/tidegate/events/previous"
HANDS = {
    "tables/warehouse": "the one way to change a table",
    "embedded": "a cache of jars, and a broker's own directory and process",
    "compute/spark.py": "a zip for Spark's executors, in a temporary directory",
    "compute/java.py": "asks a java program for its version; changes nothing",
    "ops/contract.py": "the schemas, exported into a directory that the user names",
    "cli/setup/keys.py": "a new private key, in a file that the user names",
}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder / "tidegate").rglob("*.py"))


def named(path: Path, seen: list[str]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}" for line in seen]


def contract(name: str) -> dict[str, object]:
    """A contract of import-linter."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    return next(found for found in linter["contracts"] if found["id"] == name)


def packages(floor: str) -> set[str]:
    """Every package or module directly below `tidegate` on a floor."""
    found = (ROOT / floor / "tidegate").iterdir()
    return {
        path.stem
        for path in found
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    }


@pytest.mark.parametrize("floor", ["schemas", "producers"])
def test_nothing_below_the_consumers_writes_or_removes(floor: str) -> None:
    seen = [call for path in modules(floor) for call in named(path, writes(path.read_text()))]

    assert seen == []


def test_of_the_consumers_only_the_hands_write_or_remove() -> None:
    seen = [
        call
        for path in modules("consumers")
        if not path.relative_to(ROOT / "consumers" / "tidegate").as_posix().startswith(tuple(HANDS))
        for call in named(path, writes(path.read_text()))
    ]

    assert seen == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("open(path, 'w')", id="open to write"),
        pytest.param("open(path, mode='ab')", id="open to append"),
        pytest.param("open(path, 'r+')", id="open to change"),
        pytest.param("open(path, mode)", id="open in a mode that can't be read off"),
        pytest.param("path.open('xb')", id="a path opened to create"),
        pytest.param("fs.open(path, 'wb')", id="a remote file opened to write"),
        pytest.param("fs.open(path, mode)", id="a remote file in a mode that can't be read off"),
        pytest.param("os.open(path, flags)", id="a file descriptor"),
        pytest.param("os.open(path, os.O_RDONLY | os.O_CREAT)", id="a descriptor that creates"),
        pytest.param("os.open(path, os.O_RDWR)", id="a descriptor to write"),
        pytest.param("os.remove(path)", id="os.remove"),
        pytest.param("os.replace(a, b)", id="os.replace"),
        pytest.param("os.makedirs(path)", id="os.makedirs"),
        pytest.param("Path(a).replace(b)", id="a path moved over another"),
        pytest.param("path.write_text('x')", id="a path written"),
        pytest.param("path.unlink(missing_ok=True)", id="a path removed"),
        pytest.param("path.mkdir()", id="a directory made"),
        pytest.param("fs.rm(path, recursive=True)", id="a remote tree removed"),
        pytest.param("fs.rm_file(path)", id="a remote file removed"),
        pytest.param("fs.pipe_file(path, b'')", id="a remote file written"),
        pytest.param("fs.mv(a, b)", id="a remote file moved"),
        pytest.param("import shutil", id="shutil"),
        pytest.param("from shutil import rmtree", id="a part of shutil"),
        pytest.param("import subprocess", id="a program started"),
        pytest.param("frame.write.save(path)", id="a Spark frame saved"),
    ],
)
def test_a_module_that_writes_is_seen(source: str) -> None:
    assert len(writes(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("open(path)", id="open to read"),
        pytest.param("open(path, 'rb')", id="open to read bytes"),
        pytest.param("path.open()", id="a path opened to read"),
        pytest.param("fs.open(path, 'rb')", id="a remote file opened to read"),
        pytest.param("os.open(p, os.O_RDONLY | os.O_NOFOLLOW)", id="a descriptor to read"),
        pytest.param("text.replace('a', 'b')", id="a string"),
        pytest.param("moment.replace(tzinfo=UTC)", id="a time"),
        pytest.param("items.remove(item)", id="a list"),
        pytest.param("mapping.copy()", id="a mapping"),
        pytest.param("os.path.join(a, b)", id="the name of a path"),
    ],
)
def test_a_module_that_only_reads_is_not_accused(source: str) -> None:
    assert writes(source) == []


def test_the_schemas_floor_asks_no_clock_no_chance_and_opens_nothing() -> None:
    seen = [call for path in modules("schemas") for call in named(path, impure(path.read_text()))]

    assert seen == []


@pytest.mark.parametrize(
    "source",
    ["datetime.now(UTC)", "date.today()", "time.time()", "monotonic()", "open(p)", "uuid.uuid4()"],
)
def test_an_impure_call_is_seen(source: str) -> None:
    assert len(impure(source)) == 1


def test_every_package_is_in_the_contract_of_the_floors_and_in_its_floors_folder() -> None:
    layers = layers_of(contract("floors"))

    assert misplaced({floor: packages(floor) for floor in FLOORS}, layers) == []


def test_a_package_forgotten_or_in_the_wrong_folder_is_seen() -> None:
    layers = layers_of({"layers": ["act : (later)", "see | say", "agree"]})

    assert misplaced({"up": {"act"}, "mid": {"see"}, "low": {"agree"}}, layers) == []
    assert misplaced({"up": {"new"}, "mid": {"see"}, "low": {"agree"}}, layers) == ["up/new"]
    assert misplaced({"up": {"see"}, "mid": {"act"}, "low": {"agree"}}, layers) == ["mid/act"]
    assert misplaced({"up": {"act"}, "mid": {"agree"}, "low": {"say"}}, layers) == ["low/say"]


@pytest.mark.parametrize("floor", FLOORS)
def test_tidegate_is_one_namespace_package_of_regular_packages(floor: str) -> None:
    root = ROOT / floor / "tidegate"

    assert not (root / "__init__.py").exists()
    assert (root / "py.typed").exists()
    folders = {path.parent for path in modules(floor)} - {root}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_modules_are_short_enough_to_be_read_at_one_sitting() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for floor in FLOORS
        for path in modules(floor)
    }

    assert {name: lines for name, lines in sizes.items() if lines > 500} == {}


def test_architecture_md_names_only_files_folders_and_tests_that_exist() -> None:
    named = set(re.findall(r"`([a-z_.\d]+(?:/[a-z_.\d]+)+|test_\w+)`", ARCHITECTURE))
    roots = [ROOT, *(ROOT / floor / "tidegate" for floor in FLOORS)]
    sources = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tests = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}

    assert named
    assert {
        name
        for name in named
        if name not in tests and not any((root / name).exists() for root in roots)
    } == set()


def test_the_map_in_architecture_md_has_every_package_in_the_layer_of_the_contract() -> None:
    lines = re.findall(r"^( ?\d+|  ) ([a-z_]+) {2,}", ARCHITECTURE, re.MULTILINE)
    layers: list[set[str]] = []
    for number, package in lines:
        if number.strip():
            layers.append(set())
        layers[-1].add(package)

    assert layers == layers_of(contract("floors"))


def test_every_decision_is_in_the_index_and_has_a_date_and_three_sections() -> None:
    folder = ROOT / "docs" / "decisions"
    notes = sorted(path.name for path in folder.glob("[0-9]*.md"))
    index = (folder / "index.md").read_text("utf-8")
    form = re.compile(
        r"# .+\n\n\d{4}-\d\d-\d\d\n\n## Context\n\n.+## Decision\n\n.+## Consequence\n\n.+",
        re.DOTALL,
    )

    assert sorted(re.findall(r"\((\d{4}-[a-z\d-]+\.md)\)", index)) == notes
    assert [name for name in notes if not form.fullmatch((folder / name).read_text("utf-8"))] == []


def test_the_changelog_has_the_version_and_every_released_one_has_frozen_schemas() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    sections = re.findall(r"^## \[([\w.]+)\](?: - \d{4}-\d{2}-\d{2})?$", changelog, re.MULTILINE)
    released = [name for name in sections if name != "Unreleased"]
    frozen = {path.name for path in (ROOT / PREVIOUS).glob("*")}

    assert set(released) <= frozen
    assert sections[0] == ("Unreleased" if version.endswith(".dev0") else version)
