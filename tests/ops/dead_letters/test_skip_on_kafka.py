"""`tidegate skip` on a real broker: a stopped service goes past one offset, on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from support.hudi_tables import at
from support.replays import EVERY_COMMIT, Place, commits_checked, publish_commits
from tidegate.cli import app
from tidegate.errors import ConfigError, TidegateError
from tidegate.events import DeadLetterDiscarded

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SERVICE = "coordinator"


SKIP = ("skip", "--reason", "it crashes the client", "--requested-by", "ana")


def tidegate(place: Place, *words: str) -> str:
    file = str(place.folder / "tidegate.toml")
    answer = CliRunner().invoke(app, [*words, "-c", file])
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.stdout


def skipping(service: str, topic: str, at: tuple[int, int]) -> tuple[str, ...]:
    number, offset = map(str, at)
    return "--service", service, "--topic", topic, "--partition", number, "--offset", offset


def skip(place: Place, service: str, topic: str, at: tuple[int, int], *options: str) -> Any:  # noqa: ANN401
    return json.loads(tidegate(place, *SKIP, *skipping(service, topic, at), "--json", *options))


def test_a_decider_goes_past_one_offset_and_the_audit_trail_says_who_and_why(place: Place) -> None:
    publish_commits(place, [1])
    with place.running(SERVICE):
        place.wait_until_idle(SERVICE)
    [first] = place.audience.records("commits")
    poison = (first.partition.number, first.offset + 1)
    publish_commits(place, [2, 3])

    dry = skip(place, SERVICE, "commits", poison)
    assert (dry["executed"], place.unread(SERVICE)) == (False, 2)
    assert (dry["record"]["kind"], dry["record"]["event"]["instant"]) == ("CommitCompleted", at(2))
    shown = tidegate(place, *SKIP, *skipping(SERVICE, "commits", poison))
    what, history, goes_on = shown.splitlines()
    assert f"  CommitCompleted  commit {at(2)}" in what
    assert what.endswith("s ago)")
    where = f"{place.prefix}.commits/{poison[0]}/{poison[1]}"
    assert goes_on == f"coordinator would go on after {where}; add --execute to do it"
    assert history.startswith("its history: tidegate explain ")
    assert place.audience.dead_letters() == []
    done = skip(place, SERVICE, "commits", poison, "--execute")

    with place.running(SERVICE, rules=EVERY_COMMIT):
        place.end_tasks()
    assert commits_checked(place) == [("customers", at(1)), ("customers", at(3))]
    [audit] = place.outcomes()
    assert isinstance(audit, DeadLetterDiscarded)
    assert (audit.requested_by, audit.reason) == ("ana", "it crashes the client")
    assert (audit.origin_partition, audit.origin_offset) == poison
    assert audit.caused_by == done["dead_letter_id"]
    assert len(place.audience.dead_letters()) == 1
    redrive = f"tidegate dead-letters redrive {audit.caused_by} --all --execute"
    for subject in (audit.table, history.split()[-1], done["dead_letter_id"]):
        explained = tidegate(place, "explain", subject)
        assert f"{where} was skipped by ana (unsigned): it crashes the client; coord" in explained
        assert f"to publish it again: {redrive}\n" in explained
        assert "(skipped): it crashes the client; requested by ana (unsigned)\n" in explained

    assert "1 dead letter redriven" in tidegate(place, *redrive.split()[1:])
    assert "was skipped by" not in tidegate(place, "explain", audit.table)
    assert len(place.audience.records("commits")) == 4


def test_only_the_next_offset_of_a_stopped_service_can_be_skipped(place: Place) -> None:
    publish_commits(place, [1, 2])
    [first, _] = place.audience.records("commits")
    number = first.partition.number

    with pytest.raises(TidegateError, match=r"reads offset 0 of .* next, and only that one"):
        skip(place, SERVICE, "commits", (number, 1), "--execute")
    with pytest.raises(TidegateError, match="has no record at offset 0 yet"):
        skip(place, SERVICE, "commits", (1 - number, 0), "--execute")
    with pytest.raises(ConfigError, match="does not consume dead-letters, only"):
        skip(place, SERVICE, "dead-letters", (number, 0), "--execute")
    with place.running(SERVICE):
        place.wait_until_idle(SERVICE)
        with pytest.raises(TidegateError):
            skip(place, SERVICE, "commits", (number, 2), "--execute")
    assert place.audience.dead_letters() == []
    assert place.audience.outcomes() == []


def test_an_executor_goes_past_one_offset(place: Place) -> None:
    publish_commits(place, [1])
    with place.running(SERVICE):
        place.wait_until_idle(SERVICE)
    [command] = place.audience.records("tasks")

    at_first = skipping("savepoint-writer", "tasks", (command.partition.number, 0))
    *_, goes_on, again = tidegate(place, *SKIP, *at_first, "--execute").splitlines()

    assert place.unread("savepoint-writer") == 0
    assert goes_on.startswith("savepoint-writer goes on after ")
    # with the number that it has, a task that is published again may be refused as outdated
    redrive = f"tidegate dead-letters redrive {goes_on.split()[-1]} --all --execute"
    assert again == f"to publish it again, while it is on its topic: {redrive}"
    assert "1 dead letter redriven" in tidegate(place, *redrive.split()[1:])
