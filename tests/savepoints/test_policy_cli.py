"""What people see of policies on the command line, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.cli import app
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import ConfigError
from tidegate.events import CommitCompleted
from tidegate.events.topics import COMMITS, Topic
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.summary import content_of
from tidegate.publisher import Receipt
from tidegate.runtime.bus import Partition, Record
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service.settings import Settings
from tidegate.tables.hudi import open_table
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse

POLICY = """
[[savepoints]]
tables = "lake.sales.*"
policy = "sales"
daily = { lifetime = "10d" }
"""


SOON = datetime.now(UTC).replace(microsecond=0)


def call(folder: Path, *arguments: str, policy: str = POLICY) -> str:
    file = folder / "tidegate.toml"
    file.write_text(f'[warehouse]\nroots = ["{folder}"]\n{policy}')
    answer = CliRunner().invoke(app, [*arguments, "-c", str(file)])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert answer.exit_code == 0, answer.output
    return answer.output


def table_with_savepoints(folder: Path) -> HandMade:
    """Of a policy at 1, of a person for an hour at 2, of a person at 3."""
    table = four_commits(folder / "orders", 9)
    writer = SavepointWriter(warehouse_over(folder), ThreadMap(), ticking())
    policy = {"policy": "sales", "tiers": ("daily",), "requested_by": "policy:sales"}
    more: list[dict[str, Any]] = [policy, {"lifetime_seconds": 3600}, {}]
    for minute, fields in zip((1, 2, 3), more, strict=True):
        assert list(writer.execute(savepoint_request(table, at(minute), **fields)))
    return table


def test_savepoints_are_listed_with_policy_tier_expiry_and_pins(tmp_path: Path) -> None:
    table = table_with_savepoints(tmp_path)
    arguments = ("savepoints", "list", table.location, "--json")

    text = call(tmp_path, *arguments, "--table", "lake.sales.orders", "--pins")

    first, second, third = map(json.loads, text.splitlines())
    assert (first["policy"], first["tiers"], first["requested_by"]) == (
        "sales",
        "daily",
        "policy:sales",
    )
    assert first["expires"] == "2026-03-11T12:00:00.000Z"  # ten days after NOW
    assert first["comment"] == "before the load"
    assert (second["policy"], second["requested_by"]) == (None, "ada")
    assert second["expires"].startswith(f"{NOW:%Y-%m-%d}T13:")
    assert (third["policy"], third["expires"]) == (None, None)
    files = list(table.path.rglob(f"*_{at(1)}.parquet"))
    assert (first["pinned_files"], first["pinned_bytes"]) == (
        len(files),
        sum(file.stat().st_size for file in files),
    )
    # without the table's name no policy is known, so neither is an end
    unnamed = [json.loads(line) for line in call(tmp_path, *arguments).splitlines()]
    assert unnamed[0]["expires"] is None
    assert "pinned_files" not in unnamed[0]


def test_a_removal_is_planned_with_what_it_frees(tmp_path: Path) -> None:
    table = table_with_savepoints(tmp_path)
    before = sorted(path.name for path in table.timeline.iterdir())

    text = call(
        tmp_path, "plan", "savepoint-removal", "-l", table.location, "--savepoint", at(1), "--json"
    )

    plan = json.loads(text)
    assert (plan["savepoint"], plan["policy"], plan["tiers"]) == (at(1), "sales", ["daily"])
    assert plan["freed"] == [f"p{n}/g{n}_0-1-2_{at(1)}.parquet" for n in (0, 1)]
    assert plan["freed_bytes"] == sum((table.path / e).stat().st_size for e in plan["freed"])
    assert len(plan["paths"]) == 2
    assert sorted(path.name for path in table.timeline.iterdir()) == before


def test_what_another_savepoint_keeps_is_not_freed(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1))
    table.commit(at(2), at(1), {"p1": "g1"})
    table.commit(at(3), at(1))
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())
    for minute in (1, 2):
        assert list(writer.execute(savepoint_request(table, at(minute))))

    text = call(
        tmp_path, "plan", "savepoint-removal", "-l", table.location, "--savepoint", at(1), "--json"
    )

    plan = json.loads(text)
    assert (plan["freed"], plan["savepoints_left"]) == ([f"p1/g1_0-1-2_{at(1)}.parquet"], 1)


def test_a_removal_that_would_be_refused_says_so(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)

    with pytest.raises(Refused) as refused:
        call(tmp_path, "plan", "savepoint-removal", "-l", table.location, "--savepoint", at(1))
    assert refused.value.reason == "no-such-savepoint"


def test_changed_settings_are_planned_before_they_are_deployed(tmp_path: Path) -> None:
    table = table_with_savepoints(tmp_path)
    before = sorted(path.name for path in table.timeline.iterdir())
    changed = POLICY.replace('policy = "sales"', 'policy = "orders"').replace("daily", "monthly")
    arguments = ("-t", "lake.sales.orders", "-l", table.location, "--json")

    text = call(tmp_path, "plan", "retention", *arguments, policy=changed)

    rows = {row["savepoint"]: row for row in map(json.loads, text.splitlines())}
    assert {instant: row["would"] for instant, row in rows.items()} == {
        at(1): "stay",
        at(2): "be removed",
        at(4): "be made",
    }
    assert rows[at(1)]["why"] == "no rule of the table owns policy sales"
    assert sorted(path.name for path in table.timeline.iterdir()) == before


def test_without_a_table_changed_settings_are_planned_for_all_tables_whose_commits_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_savepoints(tmp_path)
    published = {"lake.sales.denied": "/denied", "lake.sales.gone": str(tmp_path / "gone")}
    published["lake.sales.orders"] = table.location
    moved = [("lake.sales.orders", "/before/it/was/moved"), *published.items()]

    class Commits:
        """The log of a deployment with a commit of each table."""

        @classmethod
        def of(cls, _: Settings) -> Self:
            return cls()

        def read(self, topic: Topic) -> Iterator[LoggedEvent]:
            assert topic is COMMITS
            for name, location in moved:
                fields = {"table": name, "location": location, "instant": at(1)}
                fields |= {"action": "commit", "source": "ingest"}
                event = CommitCompleted.model_validate({**fields, "occurred_at": NOW})
                yield LoggedEvent(Record(Partition("t", 0), 0, b"", b"", (), 0), event)

    def opened(warehouse: Warehouse, location: str) -> object:
        if location == "/denied":
            raise PermissionError(13, "Permission denied", location)
        return open_table(warehouse, location)

    monkeypatch.setattr("tidegate.cli.restore.plan.EventLog", Commits)
    monkeypatch.setattr("tidegate.cli.restore.plan.open_table", opened)
    changed = POLICY.replace('policy = "sales"', 'policy = "orders"')

    text = call(tmp_path, "plan", "retention", "--json", policy=changed)

    denied, gone, *orders = map(json.loads, text.splitlines())
    assert "Permission denied: '/denied'" in denied["why"]
    assert (gone["table"], gone["would"]) == ("lake.sales.gone", "be refused")
    assert {row["table"] for row in orders} == {"lake.sales.orders"}
    assert at(1) in {row["savepoint"] for row in orders if row["would"] == "stay"}
    first, *_ = call(tmp_path, "plan", "retention", policy=changed).splitlines()
    assert first.split() == ["table", "savepoint", "would", "why"]
    with pytest.raises(ConfigError, match="give --table too"):
        call(tmp_path, "plan", "retention", "-l", table.location)


@pytest.mark.parametrize(
    ("lifetime", "said"),
    [
        (None, "existed already, and stays until a person removes it"),
        (864000, "existed already, kept for at least 10d at a person's request"),
    ],
)
def test_a_policy_s_savepoint_that_a_person_requests_is_shown_as_the_person_s_too(
    tmp_path: Path, lifetime: int | None, said: str
) -> None:
    table = table_with_savepoints(tmp_path)
    request = savepoint_request(table, at(1), lifetime_seconds=lifetime, occurred_at=SOON)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())
    (outcome,) = writer.execute(request)
    assert said in content_of(outcome)

    arguments = ("savepoints", "list", table.location, "-t", "lake.sales.orders")
    policy = POLICY.replace("10d", "1d")
    row = json.loads(call(tmp_path, *arguments, "--json", policy=policy).splitlines()[0])
    assert row["kept_for"] == "ada"
    expires = row["expires"] and datetime.fromisoformat(row["expires"])
    assert expires == (lifetime and SOON + timedelta(10))
    assert " also for ada" in call(tmp_path, *arguments, policy=policy)
    plan = ("plan", "savepoint-removal", "-l", table.location, "--savepoint", at(1))
    assert "kept for: ada" in call(tmp_path, *plan)
    changed = POLICY.replace('policy = "sales"', 'policy = "orders"')
    remove = ("savepoints", "remove", "-t", "lake.sales.orders", "-l", table.location)
    with pytest.raises(ConfigError, match="a person requested it, too"):
        call(tmp_path, *remove, "--policy", "sales", "--reason", "renamed", policy=changed)


def test_the_savepoints_of_a_renamed_policy_are_removed_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_savepoints(tmp_path)
    changed = POLICY.replace('policy = "sales"', 'policy = "orders"')
    requests = list[dict[str, Any]]()

    class Recording:
        """A publisher that records the requests."""

        def __init__(self, *_: object, **__: object) -> None:
            """Takes what the publisher takes."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def request_savepoint_removal(self, **fields: Any) -> Receipt:  # noqa: ANN401
            requests.append(fields)
            return Receipt("requests", 0, len(requests), f"id {len(requests)}")

    monkeypatch.setattr("tidegate.cli.sending._ReachablePublisher", Recording)
    asking = Recording.request_savepoint_removal
    monkeypatch.setattr("tidegate.publisher.Publisher.request_savepoint_removal", asking)
    arguments = ("savepoints", "remove", "-t", "lake.sales.orders", "-l", table.location)
    reason = ("--policy", "sales", "--reason", "renamed")

    call(tmp_path, *arguments, *reason, policy=changed)

    assert [(r["instant"], r["reason"]) for r in requests] == [(at(1), "renamed")]
    with pytest.raises(ConfigError, match="or a rule of"):
        call(tmp_path, *arguments, *reason)
    assert len(requests) == 1
