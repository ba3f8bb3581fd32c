"""The mark at the beginning of a savepoint's comment."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.samples import savepoint_request
from tidegate.events import SavepointMark, SavepointRequested

START = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "mark",
    [
        SavepointMark(policy="sales", tiers=("daily", "weekly"), decided_at=START),
        SavepointMark(decided_at=START, lifetime_seconds=3600),
        SavepointMark(policy="a.b-c_D", decided_at=START.replace(microsecond=120)),
    ],
)
@pytest.mark.parametrize("comment", ["", "before the load", "[tidegate x=1] nested"])
def test_a_mark_is_read_back_from_a_comment(mark: SavepointMark, comment: str) -> None:
    assert SavepointMark.parse(mark.before(comment)) == (mark, comment)


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "tidegate policy=sales",
        "[tidegate policy=sales]",
        "[tidegate policy=sales tiers=daily decided=yesterday]",
        "[tidegate policy=sales decided=2026-03-01T00:00:00+00:00 more=1]",
        "[tidegate policy=sales decided=2026-03-01T00:00:00+00:00]x",
        " [tidegate policy=sales decided=2026-03-01T00:00:00+00:00]",
    ],
)
def test_what_only_resembles_a_mark_is_not_one(comment: str) -> None:
    assert SavepointMark.parse(comment) == (None, comment)


def test_a_person_can_not_write_a_mark_in_a_comment() -> None:
    fields = savepoint_request(1).model_dump()
    comment = "[tidegate policy=sales decided=2026-03-01T00:00:00+00:00]"
    with pytest.raises(ValueError, match="comment must not begin with"):
        SavepointRequested.model_validate(fields | {"comment": comment})
