"""What the doctor says of a Metastore and of its bridge."""

from __future__ import annotations

import pytest

from support.hive_engine import HiveEngine
from support.metastore import on_both_versions, own_metastore
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.ops.doctor import Finding, examine
from tidegate.ops.doctor.local import check_metastores, judge_cleaner
from tidegate.service.settings import Settings

CLEANER, INITIATOR = "metastore.compactor.cleaner.on", "metastore.compactor.initiator.on"
LOCKLESS = "hive.acid.lockless.reads.enabled"


@pytest.mark.parametrize(
    ("settings", "state", "shown"),
    [
        ({CLEANER: "false", INITIATOR: "true"}, "ok", "Cleaner is off"),
        ({CLEANER: "TRUE", INITIATOR: "false"}, "fail", f"{CLEANER} is true"),
        # Hive 3 has no setting for it: it comes with the Initiator
        ({INITIATOR: "true"}, "fail", f"{INITIATOR} is true"),
        ({INITIATOR: "false"}, "ok", "Cleaner is off"),
        ({}, "warn", "does not report its settings"),
        ({CLEANER: "false", LOCKLESS: "true"}, "warn", "readers take no locks"),
    ],
)
def test_hives_own_cleaner_is_looked_for(settings: dict[str, str], state: str, shown: str) -> None:
    found = judge_cleaner(settings.get)
    assert (found.state, shown in found.seen) == (state, True), found
    assert bool(found.advice) == (state != "ok")


def findings(uri: str) -> list[Finding]:
    settings = BridgeSettings(uri=uri, timeout_ms=2_000)
    return list(check_metastores(settings, None))


@pytest.mark.slow
@on_both_versions
def test_a_metastore_without_its_cleaner_is_well(engine: HiveEngine) -> None:
    answers, cleaner = findings(engine.settings.uri)
    assert (answers.state, cleaner.state) == ("ok", "ok")
    assert "locks" in answers.seen


def test_a_metastore_that_is_not_there_fails_and_is_named() -> None:
    answers, cleaner = findings("thrift://127.0.0.1:1")
    assert answers.state == "fail"
    assert "127.0.0.1:1" in answers.seen
    assert cleaner.state == "skipped"


@pytest.mark.full
def test_a_metastore_with_its_cleaner_on_fails(tmp_path_factory: pytest.TempPathFactory) -> None:
    metastore = own_metastore(tmp_path_factory.mktemp("cleans"), {CLEANER: "true"})
    with metastore:
        _, cleaner = findings(metastore.uri)
    assert cleaner.state == "fail"
    assert f"set {CLEANER}=false" in cleaner.advice


def test_without_a_metastore_there_is_nothing_to_say() -> None:
    names = [finding.check for finding in examine(Settings(), [])]
    assert not [name for name in names if "metastore" in name]
