"""The access rights, read off the topics' declarations."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.json_lines import json_lines
from tidegate.bridges import position
from tidegate.cleaning.executor import Cleaner
from tidegate.cli import app
from tidegate.errors import ConfigError
from tidegate.events.topics import Role
from tidegate.ops.acls import Acl, acls
from tidegate.restores.executor import Restorer
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service.settings import Settings

ALL = acls("t")


def rights(role: str) -> set[str]:
    return {
        f"{acl.operation} {acl.resource} {acl.name}{'*' if acl.prefixed else ''}"
        for acl in ALL
        if acl.role == role
    }


def test_the_coordinator_reads_facts_and_requests_writes_tasks_and_keeps_its_changelog() -> None:
    read = ("commits", "vacuums", "locks", "requests", "outcomes", "coordinator.changelog")
    written = ("tasks", "outcomes", "dead-letters", "coordinator.changelog")

    assert rights("coordinator") == {
        *(f"read topic t.{name}" for name in read),
        *(f"write topic t.{name}" for name in written),
        *(f"describe_configs topic t.{name}" for name in {*read, *written}),
        *(f"describe group t.{name}" for name in read),
        "write transactional-id t.coordinator.changelog-*",
        "read group t.coordinator",
    }


@pytest.mark.parametrize("name", [SavepointWriter.name, Restorer.name, Cleaner.name])
def test_an_executor_reads_tasks_and_writes_outcomes(name: str) -> None:
    written = ("outcomes", "dead-letters")

    assert rights(name) == {
        "read topic t.tasks",
        *(f"write topic t.{n}" for n in written),
        *(f"describe_configs topic t.{n}" for n in ("tasks", *written)),
        f"read group t.{name}",
        "describe group t.tasks",
    }


def test_every_role_gets_rights() -> None:
    assert {acl.role for acl in ALL} == set(Role)


def test_no_right_is_printed_twice() -> None:
    assert len({replace(acl, principals=()) for acl in ALL}) == len(ALL)


def test_an_upstream_writer_publishes_facts_and_nothing_else() -> None:
    assert rights("upstream-writers") == {
        f"write topic t.{n}" for n in ("commits", "vacuums", "locks")
    }


def test_a_bridge_reads_back_what_it_publishes_and_what_came_of_it() -> None:
    facts, read = ("commits", "vacuums", "locks"), ("commits", "vacuums", "locks", "outcomes")

    assert rights("bridges") == {
        *(f"write topic t.{name}" for name in facts),
        *(f"read topic t.{name}" for name in read),
        *(f"describe_configs topic t.{name}" for name in read),
        *(f"describe group t.{name}" for name in read),
        "read group t.bridges.metastore",
        "read group t.bridges.hudi",
    }


def test_the_groups_of_the_bridges_are_theirs() -> None:
    groups = {acl.name for acl in ALL if acl.role == "bridges" and acl.operation == "read"}

    assert {position.group_of("t", bridge) for bridge in position.READS} <= groups


def test_only_groups_that_monitoring_chooses_and_transactions_are_granted_by_a_prefix() -> None:
    assert {(acl.resource, acl.name) for acl in ALL if acl.prefixed} == {
        ("group", "t.monitoring"),
        ("transactional-id", "t.coordinator.changelog-"),
    }


def test_monitoring_changes_nothing_and_joins_no_groups_but_its_own() -> None:
    assert [acl for acl in ALL if acl.role == "monitoring" and acl.operation == "write"] == []
    assert {r for r in rights("monitoring") if r.startswith("read group")} == {
        "read group t.monitoring*"
    }


def test_people_write_requests_and_resolutions_and_join_no_group() -> None:
    assert {r for r in rights("people") if not r.startswith(("read topic", "describe "))} == {
        "write topic t.requests",
        "write topic t.outcomes",
    }


@pytest.mark.parametrize(("topic", "writer"), [("requests", "people"), ("tasks", "coordinator")])
def test_only_people_may_request_and_only_the_coordinator_may_issue_tasks(
    topic: str, writer: str
) -> None:
    written = [acl for acl in ALL if (acl.operation, acl.name) == ("write", f"t.{topic}")]

    assert {acl.role for acl in written} == {writer, "operators"}


def test_only_operators_may_create_topics_or_add_partitions() -> None:
    assert {acl.role for acl in ALL if acl.operation in {"create", "alter"}} == {"operators"}


def test_a_right_is_one_kafka_acls_command() -> None:
    [right] = [acl for acl in ALL if acl.role == "upstream-writers" and acl.name == "t.commits"]
    [prefixed] = [
        acl for acl in ALL if acl.role == "coordinator" and acl.resource == "transactional-id"
    ]
    configs = next(acl for acl in ALL if acl.operation == "describe_configs")

    assert right.command("b:9092") == (
        "kafka-acls --bootstrap-server b:9092 --command-config admin.properties --add"
        " --allow-principal User:upstream-writers --operation Write --topic t.commits"
    )
    assert prefixed.command().endswith(
        "--operation Write --transactional-id t.coordinator.changelog-"
        " --resource-pattern-type prefixed"
    )
    assert "--operation DescribeConfigs --topic" in configs.command()


def test_the_command_line_prints_them_all() -> None:
    printed = CliRunner().invoke(app, ["topics", "acls"])
    data = CliRunner().invoke(app, ["topics", "acls", "--json"])

    everything = acls()
    assert printed.stdout.splitlines() == [acl.command() for acl in everything]
    rows = json_lines(data.stdout)
    assert [Acl(**row | {"principals": tuple(row["principals"])}) for row in rows] == list(
        everything
    )


def test_rights_are_granted_to_the_principals_of_the_settings(tmp_path: Path) -> None:
    names = ["User:CN=orders,OU=sales team,O=it's ours", "User:ana"]
    file = tmp_path / "tidegate.toml"
    file.write_text(f"[security.principals]\nupstream-writers = {names}\n")

    printed = CliRunner().invoke(app, ["topics", "acls", "-c", str(file)]).stdout.splitlines()

    [command] = [line for line in printed if "Write --topic tidegate.locks" in line][:1]
    arguments = shlex.split(command)
    allowed = [after for name, after in pairwise(arguments) if name == "--allow-principal"]
    assert allowed == names
    assert any("User:cleaner" in line for line in printed)


@pytest.mark.parametrize(
    ("principals", "reason"),
    [
        pytest.param('people = ["CN=ana,OU=data"]', "as Kafka does", id="no type"),
        pytest.param('people = ["User:a\\nUser:b"]', "as Kafka does", id="two lines"),
        pytest.param('pepole = ["User:ana"]', "pepole", id="unknown role"),
    ],
)
def test_a_principal_that_kafka_could_not_match_is_refused(
    tmp_path: Path, principals: str, reason: str
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(f"[security.principals]\n{principals}\n")

    with pytest.raises(ConfigError, match=reason):
        Settings.load(file)
