"""One real Hive Metastore for the whole test session, and engines that work with it.

Take a table of your own (`HiveEngine.table`) and ask about that only: other tests share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from support.embedded_metastore import HIVE_3, HIVE_4, EmbeddedMetastore, MetastoreVersion
from support.hive_engine import WORKER, HiveEngine
from support.waiting import wait_for
from tidegate.compute.java import find_java
from tidegate.embedded.process import free_ports
from tidegate.errors import ConfigError, TransientError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings

# the tests' readers send no heartbeats: on a busy machine they must not expire meanwhile
_NO_TIMEOUT = "3600s"
VERSIONS = [
    pytest.param(HIVE_4, id="4.0.1"),
    pytest.param(HIVE_3, id="3.1.3", marks=pytest.mark.full),
]
on_both_versions = pytest.mark.parametrize("metastore", VERSIONS, indirect=True)
"""A test on the shared Metastore of each version; without it a test gets Hive 4's."""


@pytest.fixture(scope="session")
def metastores(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[MetastoreVersion], EmbeddedMetastore]]:
    """A real Metastore of each version, shared by all tests, started for the first of them."""
    with ExitStack() as stack:

        @cache
        def running(version: MetastoreVersion) -> EmbeddedMetastore:
            made = own_metastore(tmp_path_factory.mktemp("metastore"), version=version)
            return stack.enter_context(made)

        yield running


@pytest.fixture
def metastore(
    request: pytest.FixtureRequest, metastores: Callable[[MetastoreVersion], EmbeddedMetastore]
) -> EmbeddedMetastore:
    """The shared Metastore; one that a test stops or kills is its own."""
    return metastores(getattr(request, "param", HIVE_4))


def own_metastore(
    folder: Path,
    more: Mapping[str, str] | None = None,
    *,
    timeout: str = _NO_TIMEOUT,
    version: MetastoreVersion = HIVE_4,
) -> EmbeddedMetastore:
    """A Metastore that is not started yet; transactions and locks time out after `timeout`.

    `more` are further settings of it.
    """
    if version == HIVE_3:
        more = {WORKER: str(free_ports()[0]), **(more or {})}
    try:
        find_java(17)
    except ConfigError as error:
        pytest.skip(f"a real Metastore needs Java 17: {error}")
    settings = {"metastore.txn.timeout": timeout, version.interval_setting: "1s"}
    settings |= more or {}
    return EmbeddedMetastore(folder, settings=settings, version=version)


@pytest.fixture
def engine(metastore: EmbeddedMetastore) -> Iterator[HiveEngine]:
    """An engine on the shared Metastore."""
    made = HiveEngine(metastore)
    yield made
    made.close()


def until_answers(settings: MetastoreSettings) -> None:
    """Wait for a Metastore that was started again."""

    def answers() -> bool:
        try:
            with MetastoreClient(settings) as client:
                return bool(client.uuid())
        except TransientError:
            return False

    wait_for("the Metastore's answer", answers)
