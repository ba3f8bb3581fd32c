"""The access rights, read off the topics' declarations."""

from __future__ import annotations

from typer.testing import CliRunner

from support.json_lines import json_lines
from tidegate.cleaning import Cleaner, ReaderGate
from tidegate.cli import app
from tidegate.events.topics import OUTCOME_TOPIC, TOPICS, topic_of
from tidegate.ops.topics.acls import Acl, acls
from tidegate.restores import Restorer
from tidegate.savepoints import SavepointPolicyService, SavepointWriter
from tidegate.service.assembly import DECIDERS, EXECUTORS

ALL = acls("t", deciders=DECIDERS, executors=EXECUTORS)
KINDS = (SavepointPolicyService, ReaderGate, SavepointWriter, Restorer, Cleaner)


def rights(role: str) -> set[str]:
    return {
        f"{each.operation} {each.resource} {each.name}{'*' if each.prefixed else ''}"
        for each in ALL
        if each.role == role
    }


def test_a_decider_reads_facts_writes_commands_and_outcomes_and_keeps_its_changelog() -> None:
    assert rights("reader-gate") == {
        "read topic t.vacuums",
        "read topic t.locks",
        "read topic t.commands",
        "read topic t.outcomes",
        "write topic t.commands",
        "write topic t.outcomes",
        "write topic t.dead-letters",
        "read topic t.reader-gate.changelog",
        "write topic t.reader-gate.changelog",
        "write transactional-id t.reader-gate.changelog-*",
        "read group t.reader-gate",
        "read group t.reader-gate.changelog",
    }


def test_an_executor_hears_commands_and_says_outcomes() -> None:
    assert rights("cleaner") == {
        "read topic t.commands",
        "write topic t.outcomes",
        "write topic t.dead-letters",
        "read group t.cleaner",
        "read group t.commands",
    }


def test_who_never_repeats_an_answered_command_may_look_the_answer_up() -> None:
    answers = {"read topic t.outcomes", "read group t.outcomes"}
    executors = (SavepointWriter, Restorer, Cleaner)

    assert {k.name for k in executors if answers <= rights(k.name)} == {Restorer.name}
    assert {k.name for k in executors if k.checks_past_outcomes} == {Restorer.name}


def test_every_role_of_a_declaration_gets_its_rights() -> None:
    roles = {role for topic in TOPICS for role in (*topic.writers, *topic.readers)}

    assert roles == {each.role for each in ALL}


def test_an_upstream_writer_says_facts_and_nothing_else() -> None:
    assert rights("upstream-writers") == {
        f"write topic t.{n}" for n in ("commits", "vacuums", "locks")
    }


def test_a_bridge_reads_back_what_it_publishes_and_what_came_of_it() -> None:
    assert rights("bridges") == {
        *(f"write topic t.{n}" for n in ("commits", "vacuums", "locks")),
        *(f"read topic t.{n}" for n in ("commits", "vacuums", "locks", "outcomes")),
        "read group t.bridges*",
    }


def test_only_people_and_deciders_may_write_commands() -> None:
    assert {
        each.role for each in ALL if (each.operation, each.name) == ("write", "t.commands")
    } == {
        "people",
        "savepoint-policy",
        "reader-gate",
    }


def test_what_a_topic_declares_of_its_readers_is_what_the_services_hear() -> None:
    heard = {kind.name: {topic_of(event) for event in kind.consumes} for kind in KINDS}
    heard[Restorer.name] |= {OUTCOME_TOPIC}
    declared = {name: {topic for topic in TOPICS if name in topic.readers} for name in heard}

    assert heard == declared


def test_a_right_is_one_kafka_acls_command() -> None:
    right = Acl("upstream-writers", "write", "topic", "t.commits")
    prefixed = Acl("reader-gate", "write", "transactional-id", "t.x-", prefixed=True)

    assert right.command("b:9092") == (
        "kafka-acls --bootstrap-server b:9092 --command-config admin.properties --add"
        " --allow-principal User:upstream-writers --operation write --topic t.commits"
    )
    assert prefixed.command().endswith(
        "--operation write --transactional-id t.x- --resource-pattern-type prefixed"
    )


def test_the_command_line_prints_them_all() -> None:
    printed = CliRunner().invoke(app, ["topics", "acls"])
    data = CliRunner().invoke(app, ["topics", "acls", "--json"])

    everything = acls(deciders=DECIDERS, executors=EXECUTORS)
    assert printed.stdout.splitlines() == [each.command() for each in everything]
    assert [Acl(**line) for line in json_lines(data.stdout)] == list(everything)
