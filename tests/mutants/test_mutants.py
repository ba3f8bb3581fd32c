"""Every rule in `mutants.py` is broken once, and its tests go red."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from mutants.mutants import Mutant
from mutants.running import ROOT, Runs, broken

TESTS_FAILED = 1
FOLDER = Path(__file__).parent


def all_mutants() -> list[Mutant]:
    """Every mutant of every list: the tuples named `...MUTANTS` in the modules `...mutants.py`."""
    names = (path.stem for path in sorted(FOLDER.glob("*mutants.py")) if path != Path(__file__))
    modules = [import_module(f"mutants.{name}") for name in names]
    lists = (
        value
        for module in modules
        for name, value in vars(module).items()
        if name.endswith("MUTANTS")
    )
    return [mutant for each in lists for mutant in each]


ALL = all_mutants()

pytestmark = pytest.mark.slow


def unbroken(*, needs_kafka: bool) -> Mutant:
    """No mutant: every test that the mutants name, on a copy in which nothing was broken."""
    asked = (each.tests for each in ALL if each.needs_kafka == needs_kafka)
    files = {word for tests in asked for word in tests.split() if word.startswith("tests/")}
    rule = f"nothing is broken, {'on Kafka' if needs_kafka else 'without Kafka'}"
    return Mutant(rule, ALL[0].file, (), " ".join(sorted(files)), needs_kafka)


@pytest.mark.soak
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(unbroken(needs_kafka=False), id="without Kafka"),
        pytest.param(unbroken(needs_kafka=True), id="on Kafka", marks=pytest.mark.kafka),
    ],
)
def test_what_turns_a_mutants_tests_red_is_the_mutant(mutant: Mutant, runs: Runs) -> None:
    result = runs.result(mutant)

    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({each.rule for each in ALL}) == len(ALL)


def test_every_mutant_is_up_to_date() -> None:
    """Seen in a second, and not only when they have all been run."""
    for each in ALL:
        broken(each, (ROOT / each.file).read_text("utf-8"))


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, id=each.rule, marks=[pytest.mark.kafka] if each.needs_kafka else [])
        for each in ALL
    ],
)
def test_the_tests_go_red_when_the_rule_is_broken(mutant: Mutant, runs: Runs) -> None:
    result = runs.result(mutant)

    assert result.returncode == TESTS_FAILED, result.stdout[-3000:] + result.stderr[-1000:]
