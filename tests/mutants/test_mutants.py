"""Every rule in `mutants.py` is broken once, and its tests go red."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.cleaning_mutants import CLEANING_MUTANTS
from mutants.mutants import DECIDERS, EXECUTORS, MUTANTS, Mutant
from mutants.operation_mutants import OPERATION_MUTANTS
from mutants.replay_mutants import GATE_REPLAY, REPLAY_MUTANTS, REPLAYS
from mutants.running import ROOT, Runs, broken, copied, run

TESTS_FAILED = 1
ALL = (*MUTANTS, *CLEANING_MUTANTS, *OPERATION_MUTANTS, *REPLAY_MUTANTS)

pytestmark = pytest.mark.slow


def test_the_copy_as_it_is_passes(tmp_path: Path) -> None:
    result = run(copied(tmp_path), f"{DECIDERS} {EXECUTORS} {REPLAYS} {GATE_REPLAY}", None)

    assert result.returncode == 0, result.stdout[-3000:]


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
