"""The mutants run while the other tests wait for brokers and JVMs; they are asked about last."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from mutants.mutants import Mutant
from mutants.running import Runs

_RUNS = pytest.StashKey[Runs]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: bool(mutants_of([item])))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    asked = mutants_of(session.items)
    if not asked or session.config.option.collectonly:
        return (yield)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runs = session.stash[_RUNS] = Runs(Path(folder))
        try:
            runs.begin(each for each in asked if not each.needs_kafka)
            return (yield)
        finally:
            runs.close()


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest) -> Runs:
    """Every mutant that was asked for; those on Kafka begin now."""
    begun, asked = request.session.stash[_RUNS], mutants_of(request.session.items)
    if any(each.needs_kafka for each in asked):
        begun.begin(asked, request.getfixturevalue("bootstrap_servers"))
    return begun


def mutants_of(items: list[pytest.Item]) -> list[Mutant]:
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    return [param["mutant"] for param in params if isinstance(param.get("mutant"), Mutant)]
