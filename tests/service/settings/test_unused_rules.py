"""Rules that can never apply are named; of a rule that may apply nothing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.signing import cleaning
from tidegate.coordinator.alarms import AlarmSettings, alarms_of
from tidegate.events import CleaningMode
from tidegate.ops.monitor import pattern_of
from tidegate.service.settings import Settings
from tidegate.service.settings.unused import unused_rules


def unused(roots: tuple[str, ...] = (), **sections: Any) -> list[str]:  # noqa: ANN401
    return unused_rules(Settings.model_validate({"warehouse": {"roots": roots}} | sections))


def restores(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rules": [{"approval": True} | rule for rule in rules]}


@pytest.mark.parametrize("location", ["/elsewhere", "/lak", "/lakes/sales", "s3://lake/a"])
def test_a_directory_outside_of_all_roots_is_named(location: str) -> None:
    [line] = unused(("/lake", "s3://lake/tables"), restores=restores({"locations": [location]}))

    assert line.startswith(f"restores.rules.0.locations: {location} is in none of the roots")


@pytest.mark.parametrize(
    "location",
    ["/", "/lake", "file:///lake/", "/lake/sales", "/*", "/l?ke/*/x", "s3a://lake/tables/orders"],
)
def test_a_directory_of_a_root_or_above_it_may_have_tables(location: str) -> None:
    roots = ("/lake/", "s3://lake/tables")

    assert unused(roots, restores=restores({"locations": [location]})) == []
    assert unused((), restores=restores({"locations": [location]})) == []


def test_a_directory_that_leads_into_a_root_through_a_link_may_have_tables(tmp_path: Path) -> None:
    (tmp_path / "disk/sales").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "disk")

    for root, location in (("lake", "disk/sales"), ("disk", "lake/sales"), ("disk", "lake")):
        rule = {"locations": [f"{tmp_path}/{location}"]}
        assert unused((f"{tmp_path}/{root}",), restores=restores(rule)) == []


@pytest.mark.parametrize("pattern", ["orders", "sales.orders", "lake.sales.orders.x"])
def test_a_name_that_no_table_can_have_is_named(pattern: str) -> None:
    rule = {"tables": pattern}

    for section, content in (
        ("savepoints", {"savepoints": [rule | {"when": "on_request"}]}),
        ("cleaning.rules", {"cleaning": {"rules": [rule | {"mode": "delete"}]}}),
        ("restores.rules", {"restores": {"rules": [rule | {"engine": "hudi"}]}}),
        ("alarms", {"alarms": [rule]}),
    ):
        [line] = unused(**content)
        assert line.startswith(f"{section}.0.tables matches no table: {pattern!r} is not of the")


@pytest.mark.parametrize(
    "pattern", ["lake.sales.orders", "Lake.Sales.Orders", "*", "orders*", "l?ke.a.b"]
)
def test_a_pattern_that_may_match_is_not_named(pattern: str) -> None:
    assert unused(alarms=[{"tables": pattern}]) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("lake.*", "lake.a.*"),
        ("lake.*", "LAKE.a.b"),
        ("*", "lake.*"),
        ("lake.a.*", "lake.a.*"),
        ("lake.[ab].*", "Lake.[ab].*"),
        ("*.orders", "lake.*.orders"),
    ],
)
def test_a_rule_behind_one_that_covers_all_of_its_tables_is_named(first: str, second: str) -> None:
    assert unused(alarms=[{"tables": first}, {"tables": second}]) == [
        f"alarms.1 for {second} never applies: alarms.0 for {first} decides before it"
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("lake.a.*", "lake.*"),
        ("lake.a.b", "lake.a.*"),
        ("lake.?.x", "lake.*.x"),
        ("*b*", "lake.[bx].y"),
        ("lake.[*].x", "lake.*.x"),
    ],
)
def test_a_rule_with_tables_of_its_own_is_not_named(first: str, second: str) -> None:
    assert unused(alarms=[{"tables": first}, {"tables": second}]) == []


def test_a_rule_about_directories_hides_rules_about_directories_in_them_only() -> None:
    first = {"locations": ["/lake/sales", "/lake/hr"]}

    for hidden in (["/lake/hr/x"], ["file:/lake/sales"], ["/lake/hr", "/lake/sales"]):
        found = unused(restores=restores(first, {"locations": hidden}))
        assert [line[:33] for line in found] == ["restores.rules.1 for * never appl"]
    for own in (["/lake/hr", "/lake/x"], ["/lake"], ["/lake/*"]):
        assert unused(restores=restores(first, {"locations": own})) == []
    assert unused(restores=restores(first, {"tables": "*"})) == []
    assert unused(restores=restores({"tables": "*"}, first)) != []


def test_rules_match_names_in_any_case() -> None:
    released = cleaning()
    pattern = released.table.title()
    settings = Settings.model_validate(
        {
            "cleaning": {"rules": [{"tables": pattern, "mode": "quarantine"}]},
            "alarms": [{"tables": pattern, "overdue_after": "1h"}],
        }
    )

    assert settings.cleaning.handling(released).mode is CleaningMode.QUARANTINE
    assert alarms_of(settings.alarms, released.table) != AlarmSettings()
    assert pattern_of(released.table, (pattern,)) == pattern
