"""The savepoint rule of a table in one sentence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.policies import policy_rule
from support.samples import commit
from tidegate.ops.explain import described_rule
from tidegate.savepoints.rules import SavepointRule, Tier, TierRule

TABLE = commit(1).table
DELETES = TierRule(tier=Tier.BEFORE, operations=("delete*",), lifetime=timedelta(days=14))
N = TierRule(tier=Tier.EVERY_N, commits=5)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        pytest.param((), "no rule of [[savepoints]] covers this table", id="no rule"),
        pytest.param(
            (policy_rule(tables="other.*"), policy_rule(tables="lake.*")),
            "rule 2 of [[savepoints]] (policy default, tables 'lake.*'): savepoints on request",
            id="on request",
        ),
        pytest.param(
            (policy_rule(DELETES, N, min_gap=timedelta(hours=1), max_count=9),),
            "before delete* (retained: for 14d), every 5 commits (retained: forever), at least 1h"
            " apart, at most 9 in all",
            id="tiers and limits",
        ),
    ],
)
def test_the_sentence_names_the_rule_and_what_it_retains(
    rules: tuple[SavepointRule, ...], sentence: str
) -> None:
    assert sentence in described_rule(rules, TABLE)
