"""Which restores need an approval, and which are left to Hudi's own procedure, by the settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from support.signing import ANA, entry
from tidegate.coordinator.rows.store import Store
from tidegate.errors import ConfigError
from tidegate.events import CommitCondemned
from tidegate.restores.hudi_engine import EXTENSION
from tidegate.service.assembly import hudi_session, restore_settings, subjects
from tidegate.service.settings import Settings
from tidegate.tables.warehouse.roots import spellings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)


def settings(*rules: dict[str, Any], **more: Any) -> Settings:  # noqa: ANN401
    return Settings.model_validate({"restores": {"rules": list(rules)}} | more)


def test_the_first_rule_that_covers_a_place_decides() -> None:
    rules = restore_settings(
        settings(
            {"locations": ["/lake/*/scratch"], "approval": False},
            {
                "locations": ["/lake/sales", "s3a://lake/x"],
                "approval": True,
                "approve_within": "2h",
            },
            {"tables": "*", "approval": True},
        )
    )

    scratch = rules.rule_of(None, "/lake/sales/scratch/t1")
    assert scratch is not None
    assert not scratch.approval
    for place in ("/lake/sales/orders", "/lake/sales", "s3://lake/x/y/z"):
        found = rules.rule_of(None, place)
        assert found is not None
        assert (found.within, found.approved_by) == (timedelta(hours=2), ("*",))
    for place in ("/lake/salesmen/staff", "/lake/hr", "/lake/a/b/scratch", "nowhere"):
        found = rules.rule_of(None, place)
        assert found is not None
        assert found.within == timedelta(days=1)


def test_without_rules_no_approval_is_needed() -> None:
    assert restore_settings(Settings()).rule_of(None, "/lake/sales/orders") is None


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([{"tables": "lake.sales.*", "approval": True}], id="an approval by name"),
        pytest.param(
            [{"tables": "dev.*", "approval": False}, {"locations": ["/lake"], "approval": True}],
            id="none by name",
        ),
        pytest.param([{"tables": "dev.*", "locations": ["/lake"], "approval": True}], id="by both"),
    ],
)
def test_a_name_which_the_requester_chooses_decides_on_no_approval(
    rules: list[dict[str, Any]],
) -> None:
    with pytest.raises(ValidationError, match="decides by name"):
        settings(*rules)


@pytest.mark.parametrize("place", ["lake/sales", "/lake/../etc", "", "s3:lake"])
def test_an_invalid_location_is_refused(place: str) -> None:
    with pytest.raises(ValidationError, match="not an absolute path or URI"):
        settings({"locations": [place], "approval": True})


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"tables": "*"}, id="does not say whether"),
        pytest.param({"approval": True}, id="does not say of what"),
        pytest.param({"locations": [], "approval": True}, id="of nothing"),
        pytest.param({"tables": "*", "approval": True, "approved_by": []}, id="no approver"),
        pytest.param({"tables": "*", "approval": True, "approve_within": "0s"}, id="no time"),
        pytest.param(
            {"tables": "*", "approval": True, "approve_within": "22d"},
            id="longer than the topic is sure to have the request",
        ),
        pytest.param({"tables": "*", "approval": False, "approved_by": ["ben"]}, id="no use"),
    ],
)
def test_a_rule_that_can_t_be_meant_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(rule)


def test_where_signatures_are_required_an_approver_with_a_key_is_needed() -> None:
    rule = {"locations": ["/lake"], "approval": True, "approved_by": ["an*"]}

    def keys(**more: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"require_signatures": True, "keys": [entry(ANA, **more)]}

    with pytest.raises(ValidationError, match="an approval is impossible"):
        settings(rule, security=keys())
    with pytest.raises(ValidationError, match="an approval is impossible"):
        settings(rule, security=keys(name="ben", roles=["approver"]))
    settings(rule, security=keys(roles=["requester", "approver"]))


BY_HUDI = {"rules": [{"tables": "lake.old.*", "engine": "hudi"}]}


def never() -> SparkSession:
    raise AssertionError("a session was asked for")


def test_hudi_restores_the_tables_that_a_rule_leaves_to_it() -> None:
    left = Settings.model_validate(
        {"restores": BY_HUDI, "spark": {"conf": {"spark.sql.extensions": f"x,{EXTENSION}"}}}
    )
    engine = hudi_session(left, never)
    assert engine is not None
    assert restore_settings(left).are_by_hudi("lake.old.orders", "/x")
    assert not restore_settings(left).are_by_hudi("lake.new.orders", "/x")
    assert not restore_settings(left).are_by_hudi("", "/x")
    assert hudi_session(Settings(), never) is None


def test_rules_match_names_in_any_case_for_the_engine_too() -> None:
    rules = {"rules": [{"tables": "Lake.Old.*", "engine": "hudi"}]}
    left = Settings.model_validate({"restores": rules})
    assert left.restores.are_by_hudi("lake.old.orders", "/x")
    assert left.restores.are_by_hudi("lake.OLD.orders", "/x")


def test_a_session_that_would_not_understand_the_call_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"spark\.sql\.extensions"):
        hudi_session(Settings.model_validate({"restores": BY_HUDI}), never)


@pytest.mark.parametrize("more", [{"engine": "hudi"}, {"condemned": "plan"}])
def test_a_rule_takes_no_approval_away_without_saying_so(more: dict[str, Any]) -> None:
    first, second = {"locations": ["/lake/old"], **more}, {"tables": "*", "approval": True}

    with pytest.raises(ValidationError, match=r"/lake/old decides before the one for \*"):
        Settings.model_validate({"restores": {"rules": [first, second]}})

    for said in (True, False):
        Settings.model_validate({"restores": {"rules": [{**first, "approval": said}, second]}})
    Settings.model_validate({"restores": {"rules": [second, first]}})


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("{at}/data/*/sales", id="a link where it has a *"),
        pytest.param("{at}/data", id="a link in what it covers"),
        pytest.param("{at}/d[a]ta/lake/sales", id="a link behind a character class"),
        pytest.param("{at}/data/lake/sales", id="a link that leads to a name with brackets"),
    ],
)
def test_a_root_by_its_other_name_is_covered_too(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "disk[1]/sales").mkdir(parents=True)
    (tmp_path / "disk[1]/hr").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/lake").symlink_to(tmp_path / "disk[1]")
    roots = [f"file:{tmp_path}/data/lake/", f"{tmp_path}/disk[1]"]
    rule = {"locations": [pattern.format(at=tmp_path)], "approval": True}

    rules = restore_settings(settings(rule, warehouse={"roots": roots}))

    assert rules.rule_of(None, *spellings_of(f"{tmp_path}/disk[1]/sales/orders")) is not None
    assert rules.rule_of(None, *spellings_of(f"file:{tmp_path}/data/lake/sales/orders")) is not None
    covers_hr = rules.rule_of(None, *spellings_of(f"{tmp_path}/disk[1]/hr/staff")) is not None
    assert covers_hr == pattern.endswith("/data")
    assert rules.rule_of(None, *spellings_of(f"{tmp_path}/disk1/sales/orders")) is None


@pytest.mark.parametrize("place", ["/lake/**/sales", "s3://lake/**"])
def test_two_stars_which_would_stand_for_one_name_alone_are_refused(place: str) -> None:
    with pytest.raises(ValidationError, match="one name"):
        settings({"locations": [place], "approval": True})


@pytest.mark.parametrize(
    ("rule", "location"),
    [
        ("s3a://lake/sales", "s3a://lake/sales/orders"),
        ("s3://lake/sales", "s3a://lake/sales/orders"),
        ("/lake/sales", "file:/lake/sales/orders"),
        ("/lake/sales", "file:///lake//sales/orders/"),
        ("file:/lake/sales/", "/lake/sales"),
    ],
)
def test_what_follows_from_a_condemned_commit_goes_by_no_spelling(rule: str, location: str) -> None:
    coordinator = subjects(settings({"locations": [rule], "condemned": "plan"}))

    def reacts(location: str) -> bool:
        bad = CommitCondemned(
            table="lake.sales.orders",
            location=location,
            occurred_at=AT,
            source="ingest",
            instant="20260301100200000",
            reason="doubled",
        )
        return bool(coordinator.handle(bad, Store(coordinator.row_types), AT).commands)

    assert reacts(location)
    for other in ("/lake/hr/orders", "s3://lake/salesx", "/lake/sales/../hr"):
        assert not reacts(other)
