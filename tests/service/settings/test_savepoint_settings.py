"""`[[savepoints]]`: what is accepted, and why the rest is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.savepoints.rules import SavepointRule, Tier, TierRule
from tidegate.service.settings import Settings

DAY = timedelta(days=1)


def rules(folder: Path, *lines: str) -> tuple[SavepointRule, ...]:
    file = folder / "tidegate.toml"
    file.write_text("\n".join(("[[savepoints]]", 'tables = "lake.*"', *lines)))
    return Settings.load(file).savepoints


def test_every_tier_and_limit_can_be_set(tmp_path: Path) -> None:
    (rule,) = rules(
        tmp_path,
        'policy = "sales"',
        'lifetime = "30d"',
        'min_gap = "10m"',
        "every_commit = {}",
        'every_n = { commits = 10, lifetime = "2w" }',
        "hourly = { keep = 24 }",
        'daily = { keep = 7, lifetime = "10d" }',
        'monthly = { lifetime = "4w" }',
        'before = { operations = ["delete*"], lifetime = "12h" }',
        'after = { operations = ["insert_overwrite*"], keep = 3 }',
        "max_count = 60",
    )

    assert (rule.policy, rule.tables, rule.max_count) == ("sales", "lake.*", 60)
    assert rule.min_gap == timedelta(minutes=10)
    assert rule.tiers == (
        TierRule(tier=Tier.EVERY_COMMIT, lifetime=30 * DAY),
        TierRule(tier=Tier.EVERY_N, commits=10, lifetime=14 * DAY),
        TierRule(tier=Tier.HOURLY, keep=24),
        TierRule(tier=Tier.DAILY, keep=7, lifetime=10 * DAY),
        TierRule(tier=Tier.MONTHLY, lifetime=28 * DAY),
        TierRule(tier=Tier.BEFORE, operations=("delete*",), lifetime=DAY / 2),
        TierRule(tier=Tier.AFTER, operations=("insert_overwrite*",), keep=3),
    )
    assert rule.reads_operations


def test_the_earlier_form_keeps_working_with_a_lifetime(tmp_path: Path) -> None:
    (limited,) = rules(tmp_path, 'when = "every_commit"', 'lifetime = "30d"')
    (forever,) = rules(tmp_path, 'when = "every_commit"', 'lifetime = "forever"')
    (none,) = rules(tmp_path, 'when = "on_request"')

    assert limited.tiers == (TierRule(tier=Tier.EVERY_COMMIT, lifetime=30 * DAY),)
    assert limited.max_count is None
    assert forever.tiers == (TierRule(tier=Tier.EVERY_COMMIT),)
    assert forever.max_count is None
    assert none.tiers == ()


def test_a_policy_may_adopt_the_savepoints_of_earlier_names(tmp_path: Path) -> None:
    (rule,) = rules(tmp_path, 'policy = "sales"', 'adopts = ["orders"]', "daily = { keep = 7 }")

    assert [rule.owns(name) for name in ("sales", "orders", "other", None)] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param(
            ('when = "every_commit"',),
            'when = "every_commit" keeps every file of a table forever, so that Hudi cleans'
            ' nothing: say how long its savepoints are kept, e.g. lifetime = "30d", or'
            ' lifetime = "forever"',
            id="the earlier form without a lifetime",
        ),
        pytest.param(
            ("daily = {}",), "daily has no end: Hudi would never clean", id="a tier without end"
        ),
        pytest.param((), "say when: one or more of every_commit, every_n", id="nothing at all"),
        pytest.param(
            ('lifetime = "30d"',), "say when: one or more of", id="a lifetime of nothing made"
        ),
        pytest.param(
            ('when = "on_request"', "daily = { keep = 1 }"),
            'when = "on_request" contradicts daily',
            id="on request and yet daily",
        ),
        pytest.param(
            ('when = "on_request"', 'lifetime = "1d"'),
            'when = "on_request" has no use for lifetime',
            id="a lifetime on request",
        ),
        pytest.param(
            ('daily = { keep = 3, lifetime = "forever" }',),
            'daily: keep = 3 and lifetime = "forever" contradict each other',
            id="three for ever",
        ),
        pytest.param(
            ("daily = { keep = 1 }", "weekly = { keep = 1 }", "max_count = 1"),
            "max_count (1) is less than the number of tiers (2)",
            id="fewer than tiers",
        ),
        pytest.param(
            ("daily = { keep = 7 }", "max_count = 5"),
            "max_count (5) is less than what the tiers keep together (7)",
            id="fewer than kept",
        ),
        pytest.param(
            ("daily = { keep = 7 }", 'lifetime = "30d"'),
            "no tier uses this lifetime",
            id="a lifetime that counts nowhere",
        ),
        pytest.param(
            ('daily = { lifetime = "a while" }',),
            'savepoints.0.daily.lifetime: neither "forever" nor a duration',
            id="no duration",
        ),
        pytest.param(
            ('daily = { lifetime = "0d" }',), "daily: a lifetime of nothing", id="no time at all"
        ),
        pytest.param(("daily = { keep = 0 }",), "savepoints.0.daily.keep", id="keep nothing"),
        pytest.param(
            ("every_n = { keep = 1 }",), "savepoints.0.every_n.commits", id="every how many"
        ),
        pytest.param(
            ("before = { keep = 1, operations = [] }",),
            "savepoints.0.before.operations",
            id="before what",
        ),
        pytest.param(
            ('policy = "two words"', "daily = { keep = 1 }"), "savepoints.0.policy", id="a bad name"
        ),
        pytest.param(
            ('min_gap = "ten"', "daily = { keep = 1 }"),
            "savepoints.0.min_gap: not a duration such as 90s",
            id="a bad gap",
        ),
        pytest.param(
            ("dayly = { keep = 1 }",), "unknown setting, did you mean daily?", id="a slip"
        ),
    ],
)
def test_what_can_not_be_meant_is_refused_with_the_reason(
    tmp_path: Path, lines: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        rules(tmp_path, *lines)

    assert problem in str(refused.value)
