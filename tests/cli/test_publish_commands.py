"""`tidegate publish`: what is wrong is said at once, with exit code 2; what is right is sent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.deployment_events import awaiting, publish, restore_request
from support.hudi_tables import (
    at,
    end_of,
    four_commits,
    merge_on_read,
    savepoint_request,
    ticking,
    warehouse_over,
)
from support.samples import task_of
from support.topic_monitor import TopicMonitor
from tidegate.cli import main
from tidegate.cli.exit_codes import MEANINGS, ExitCode, table
from tidegate.cli.sending import OF_VERDICT
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import StopService
from tidegate.events import CommitCompleted, RestoreRequested, WithdrawalRequested
from tidegate.events.base import Verdict
from tidegate.events.topics import EVENT_TYPES
from tidegate.hudi.instant import WRITES, Action, Instant, InstantState
from tidegate.ops.event_log import EventLog
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service.settings import Settings
from tidegate.service.settings.sections import SecuritySettings
from tidegate.signatures import SigningKey
from tidegate.tables.claim import Task
from tidegate.tables.hudi import claim_table

Tidegate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tidegate:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def savepointed(folder: Path, *minutes: int) -> str:
    table = four_commits(folder / "orders", 9)
    writer = SavepointWriter(warehouse_over(folder), ThreadMap(), ticking())
    for minute in minutes:
        assert list(writer.execute(savepoint_request(table, at(minute))))
    (folder / "tidegate.toml").write_text(f'[warehouse]\nroots = ["{folder}"]\n')
    return table.location


@pytest.mark.parametrize(
    "command",
    [
        "hold add lake.sales.orders",
        "publish approval -t lake.s.o --location /x --request r-1 --plan-id p --new",
    ],
)
def test_an_unsigned_request_is_refused_at_once_where_signatures_are_required(
    command: str, tidegate: Tidegate, tmp_path: Path
) -> None:
    key, settings = SigningKey.generate(), tmp_path / "t.toml"
    settings.write_text(
        "[security]\nrequire_signatures = true\n[[security.keys]]\nname = 'ana'\n"
        f"roles = ['holder', 'approver']\npublic_key = '''{key.public_pem}'''\n"
    )
    code, out, err = tidegate(*command.split(), "--reason", "r", "-c", str(settings))

    expected = "security.require_signatures is on: give --sign-with KEY"
    assert (code, out, expected in err) == (ExitCode.WRONG, "", True)


def test_a_suggested_command_is_signed_where_that_is_required() -> None:
    approve, look = "tidegate publish approval --plan-id p", "tidegate publish commit -t a.b.c"
    keys = [{"name": "ana", "public_key": "x", "roles": ["holder"]}]
    required = SecuritySettings.model_validate({"require_signatures": True, "keys": keys})

    assert required.suggested(f"x: {approve} ({look})") == (
        f"x: tidegate publish approval --sign-with KEY.pem --plan-id p ({look})"
    )
    assert SecuritySettings().suggested(approve) == approve


def test_every_exit_code_has_a_meaning_and_every_final_verdict_a_code() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert set(OF_VERDICT) == set(Verdict) - {Verdict.UNDER_WAY}
    assert all(f"  {code.value}  " in table() for code in ExitCode)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_the_example_of_every_event_is_valid(tidegate: Tidegate, kind: str) -> None:
    code, out, _ = tidegate("schemas", "example", kind.lower())

    assert code == 0
    assert EVENT_TYPES[kind].model_validate_json(out).event_id


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("--timeout", "soon", "--wait"), "is not a duration", id="a time-out"),
        pytest.param(("-l", "orders"), "not an absolute path", id="a relative location"),
        pytest.param(("--reason", "Zo\udce8"), "write text in UTF-8", id="not UTF-8"),
    ],
)
def test_a_request_that_is_wrong_is_an_error_at_the_caller(
    tidegate: Tidegate, arguments: tuple[str, ...], said: str
) -> None:
    savepoint = ("publish", "savepoint", "-t", "lake.sales.orders", "-l", "/lake/orders")
    code, out, err = tidegate(*savepoint, *arguments)

    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("commit", "--instant", "20260301100000001", "--action", "commmit"),
        ("lock-released", "--lock-id", "7", "--reason", "gone"),
    ],
)
def test_a_word_outside_the_choices_is_wrong(
    tidegate: Tidegate, arguments: tuple[str, ...]
) -> None:
    code, _, err = tidegate("publish", *arguments, "-t", "lake.sales.orders", "-l", "/lake/orders")

    assert code == 2
    assert f"Invalid value for '{arguments[-2]}': '{arguments[-1]}' is not one of " in err


def test_every_action_of_a_write_can_be_given(tidegate: Tidegate) -> None:
    commit = ("publish", "commit", "-t", "a.b.c", "-l", "/c", "--instant", "latest", "--action")
    _, _, err = tidegate(*commit, "?")

    assert [action for action in WRITES if f"'{action}'" not in err] == []


@pytest.mark.parametrize(
    ("command", "option", "value", "problem"),
    [
        ("outcomes", "--limit", "x", "write a whole number"),
        ("outcomes", "--limit", "-1", "write at least 0"),
        ("monitor", "--port", "65536", "write at most 65535"),
        ("monitor", "--interval", "soon", "write a number"),
    ],
)
def test_a_wrong_value_is_answered_in_our_words(
    tidegate: Tidegate, command: str, option: str, value: str, problem: str
) -> None:
    code, _, err = tidegate(command, option, value)

    assert code == 2
    assert err.splitlines()[-1] == f"Error: Invalid value for '{option}': {problem}"


@pytest.mark.parametrize(
    "command",
    [
        ("explain", ""),
        ("undo", "", "--reason", "x", "--execute"),
        ("publish", "withdraw", "-t", "a.b.c", "-l", "/c", "--reason", "x", "--request", ""),
        ("replay", "events", "--topic", "requests", "--event-id", "", "--execute"),
        ("dead-letters", "redrive", "", "--execute"),
    ],
    ids=" ".join,
)
def test_an_empty_id_is_not_the_beginning_of_every_id(
    tidegate: Tidegate, command: tuple[str, ...]
) -> None:
    """As from a variable of a script that is not set."""
    code, out, err = tidegate(*command)

    assert (code, out, err) == (2, "", "tidegate: an id is empty: every id begins so\n")


def test_a_missing_field_of_an_approval_is_named(tidegate: Tidegate) -> None:
    code, _, err = tidegate("publish", "approval", "--request", "r-1", "--reason", "checked")

    assert code == 2
    assert "missing: --table, --plan-id, or --plan, which has them" in err


@pytest.mark.kafka
def test_a_commit_is_published_from_options(
    tidegate: Tidegate,
    tmp_path: Path,
    bootstrap_servers: str,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(f'[topics]\nprefix = "{topic_prefix}"\npartitions = 1\n')

    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics)

    commit = ("commit", "-t", "lake.sales.orders", "-l", "/lake/orders")
    more = ("--operation", "upsert", "--action", "deltacommit", "--table-type", "merge_on_read")
    code, out, _ = tidegate(
        "publish", *commit, "--instant", "20260301100000001", *more, "--json", "-c", str(file)
    )
    assert code == 0
    monitor = TopicMonitor(bootstrap_servers, topic_prefix, 1)
    [done] = monitor.events("commits")
    assert (done.operation, done.action) == ("upsert", "deltacommit")  # type: ignore[attr-defined]
    assert done.event_id == json.loads(out)["event_id"]


def test_a_plan_is_written_to_a_file_and_requested_from_it(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    location, plan = savepointed(tmp_path, 1, 2), tmp_path / "plan.json"
    options = ("-t", "lake.sales.orders", "-c", str(tmp_path / "tidegate.toml"))

    code, out, _ = tidegate(
        "plan", "restore", "-l", location, "--savepoint", "latest", "--out", str(plan), *options
    )

    assert code == 0
    written = json.loads(plan.read_text())
    assert (written["savepoint"], written["table"]) == (at(2), "lake.sales.orders")
    assert f"tidegate publish restore --plan {plan} --reason WHY --wait" in out
    reason = ("publish", "restore", "--reason", "x", "--plan", str(plan))
    code, _, err = tidegate(*reason, "--savepoint", at(1))
    assert (code, "the plan is for savepoint" in err) == (2, True)
    code, _, err = tidegate(*reason, "-t", "lake.sales.customers")
    assert (code, "the plan is for table" in err) == (2, True)


@pytest.mark.parametrize(("wanted", "minute"), [("latest", 2), ("latest~1", 1)])
def test_a_savepoint_is_named_by_how_new_it_is(
    tidegate: Tidegate, tmp_path: Path, wanted: str, minute: int
) -> None:
    location = savepointed(tmp_path, 1, 2)
    options = ("--json", "-c", str(tmp_path / "tidegate.toml"))
    code, out, err = tidegate("plan", "restore", "-l", location, "--savepoint", wanted, *options)

    if minute == 1:  # refused for the later savepoint, so it was that one that was looked for
        assert (code, at(2) in err) == (1, True)
        assert out.startswith("tidegate publish savepoint-removal --table CATALOG")
        assert f" --savepoint {at(2)} --reason WHY --wait" in out
    else:
        assert (code, json.loads(out)["savepoint"]) == (0, at(minute))


def test_a_plan_looks_for_locks_where_the_settings_say(tidegate: Tidegate, tmp_path: Path) -> None:
    location, file = savepointed(tmp_path, 1, 4), tmp_path / "tidegate.toml"
    options = ("--savepoint", "latest", "--json", "-c", str(file))
    file.write_text(f"[restores]\nlock_files = ['locks/of/writers']\n{file.read_text()}")
    code, out, _ = tidegate("plan", "restore", "-l", location, *options)
    looked_at = ["locks/of/writers", ".hoodie/.locks/*.json"]
    assert (code, json.loads(out)["locks_looked_at"]) == (0, looked_at)

    lock = Path(location) / "locks/of/writers"
    lock.parent.mkdir(parents=True)
    lock.touch()
    code, _, err = tidegate("plan", "restore", "-l", location, *options)
    assert (code, "the lock locks/of/writers is held" in err) == (1, True)

    os.utime(lock, (0, 0))
    file.write_text(file.read_text().replace("[restores]", "[restores]\nlock_expiry = '1d'"))
    code, _, _ = tidegate("plan", "restore", "-l", location, *options)
    assert code == 0


@pytest.mark.parametrize("wanted", ["latest~2", "newest", "HEAD~1", "2026"])
@pytest.mark.parametrize(
    "command",
    [
        "plan restore",
        "plan savepoint-removal",
        "publish restore -t a.b.c --reason x",
        "publish savepoint-removal -t a.b.c --reason x",
    ],
)
def test_a_savepoint_that_there_is_not_is_answered_with_those_that_there_are(
    tidegate: Tidegate, tmp_path: Path, command: str, wanted: str
) -> None:
    location = savepointed(tmp_path, 1, 2)
    options = ("-l", location, "--savepoint", wanted, "-c", str(tmp_path / "tidegate.toml"))

    expected = (
        f"tidegate: {location} has no savepoint {wanted}: give an instant, latest, or latest~1 for"
        f" the one before it; its newest savepoints: {at(2)}, {at(1)}\n"
    )
    assert tidegate(*command.split(), *options) == (2, "", expected)


@pytest.mark.parametrize("minutes", [(1,), (1, 2)])
def test_the_plan_of_a_removal_warns_of_the_last_savepoint_and_ends_with_the_command(
    tidegate: Tidegate, tmp_path: Path, minutes: tuple[int, ...]
) -> None:
    location = savepointed(tmp_path, *minutes)
    plan = ("plan", "savepoint-removal", "-l", location, "--savepoint", at(1))
    code, out, _ = tidegate(*plan, "-c", str(tmp_path / "tidegate.toml"))

    assert code == 0
    assert ("It is the table's last savepoint: " in out) is (minutes == (1,))
    assert out.splitlines()[-1] == (
        "To do it: tidegate publish savepoint-removal --table CATALOG.DATABASE.TABLE --location"
        f" {location} --savepoint {at(1)} --reason WHY --wait"
    )


def test_a_table_without_savepoints_is_called_that(tidegate: Tidegate, tmp_path: Path) -> None:
    location = savepointed(tmp_path)
    options = ("-l", location, "--savepoint", "latest", "-c", str(tmp_path / "tidegate.toml"))

    assert tidegate("plan", "restore", *options) == (
        2,
        "",
        f"tidegate: {location} has no savepoints\n",
    )


def test_a_text_that_is_not_an_instant_is_answered_with_the_accepted_forms(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    location = savepointed(tmp_path, 1)
    instant = ("-t", "lake.s.o", "-l", location, "--instant", "latest~1")
    newest = f"no write latest~1 has completed on the timeline of {location}; the newest is {at(4)}"

    for command, problem in (
        (("savepoint",), "--instant latest~1: give an instant of the timeline, or latest"),
        (("commit",), newest),
        (("condemned", "--reason", "x"), newest),
    ):
        assert tidegate("publish", *command, *instant) == (2, "", f"tidegate: {problem}\n")


def test_an_empty_plan_says_that_there_is_nothing_to_do(tidegate: Tidegate, tmp_path: Path) -> None:
    location, plan = savepointed(tmp_path, 4), tmp_path / "plan.json"
    arguments = ("plan", "restore", "-l", location, "--savepoint", "latest", "--out", str(plan))
    code, out, _ = tidegate(*arguments, "-c", str(tmp_path / "tidegate.toml"))

    assert code == 0
    assert f"nothing to do: {at(4)} is the table's newest commit" in out
    assert f"{plan} was not written" in out
    assert not plan.exists()


def test_a_file_that_is_not_a_plan_is_wrong(tidegate: Tidegate, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"savepoint": 1}')
    for name, said in (
        ("plan.json", "is not a valid restore's plan"),
        ("none.json", "No such file"),
    ):
        code, _, err = tidegate(
            "publish", "restore", "--reason", "x", "--plan", str(tmp_path / name)
        )
        assert (code, said in err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("restore", "--reason", "x", "--plan"), ("event", "VacuumFinished")],
    ids=["a plan", "an event"],
)
def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(
    tidegate: Tidegate, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "large.json"
    file.write_bytes(b'{"instants": [' + b"{}," * 3_000_000 + b"{}]}")

    code, _, err = tidegate("publish", *arguments, str(file))

    assert code == 2
    assert f"{file} is larger than the limit of" in err


@pytest.fixture
def settings_file(
    tmp_path: Path, bootstrap_servers: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    file = tmp_path / "deployment.toml"
    file.write_text(
        f'[topics]\nprefix = "{topic_prefix}"\npartitions = 1\n'
        f'[warehouse]\nroots = ["{tmp_path}"]\n'
    )
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    settings = Settings.load(file)
    create_topics(settings.connection(), settings.topics)
    return file


@pytest.mark.kafka
def test_a_misspelt_table_is_refused_with_the_nearest_name(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    at_deployment = ("-c", str(settings_file))
    known = ("-t", "lake.sales.visits", "-l", "/lake/visits", "--instant", "20260301100000001")
    hold = ("hold", "add", "lake.sales.vists", "--reason", "a check", *at_deployment)
    monitor = TopicMonitor(bootstrap_servers, topic_prefix, 1)

    assert tidegate("publish", "commit", *known, *at_deployment)[0] == 0
    code, out, err = tidegate(*hold, "--wait", "--timeout", "1s")

    assert (code, out) == (2, "")
    assert "no event names the table lake.sales.vists; did you mean lake.sales.visits?" in err
    assert monitor.events("requests") == []
    assert tidegate(*hold, "--new")[0] == 0
    assert [event.table for event in monitor.events("requests")] == ["lake.sales.vists"]


def test_a_table_that_may_not_be_read_is_an_error_of_a_line(
    tidegate: Tidegate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = savepointed(tmp_path)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", location)

    monkeypatch.setattr("tidegate.storage.reader.Storage.names", denied)

    code, _, err = tidegate("savepoints", "list", location, "-c", str(tmp_path / "tidegate.toml"))
    assert (code, err) == (1, f"tidegate: [Errno 13] Permission denied: '{location}'\n")


@pytest.mark.kafka
def test_the_location_of_a_table_comes_from_its_events(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    location, config = savepointed(settings_file.parent, 1, 2), ("-c", str(settings_file))
    orders = ("-t", "lake.sales.orders", *config)

    code, _, err = tidegate("savepoints", "list", "lake.sales.orders", *config)
    assert (code, "for a new table, give its location" in err) == (2, True)
    first = ("publish", "commit", *orders, "--instant", at(3), "--source", "orders-ingest")
    assert tidegate(*first)[0] == 2
    assert tidegate(*first, "-l", location)[0] == 0
    assert tidegate("publish", "commit", *orders, "--instant", at(4))[0] == 0

    code, out, _ = tidegate("savepoints", "list", "lake.sales.orders", "--json", *config)
    assert [json.loads(line)["savepoint"] for line in out.splitlines()] == [at(1), at(2)]
    code, out, err = tidegate("plan", "restore", *orders, "--savepoint", "latest")
    assert (code, f"lake.sales.orders is at {location}" in err) == (0, True)
    assert "This destroys 2 commits of lake.sales.orders" in out
    assert f"by orders-ingest ({at(3)})" in out
    assert tidegate("publish", "savepoint", *orders)[0] == 0
    monitor = TopicMonitor(bootstrap_servers, topic_prefix, 1)
    assert {event.location for event in monitor.events("requests")} == {location}

    ended = ("publish", "lock-released", *orders, "--lock-id", "5", "-l", f"{location}/day=1")
    assert tidegate(*ended)[0] == 0
    assert tidegate("savepoints", "list", "lake.sales.orders", *config)[0] == 0
    assert tidegate(*first[:-2], "--source", "mallory", "-l", "/elsewhere/orders")[0] == 0
    code, _, err = tidegate("savepoints", "list", "lake.sales.orders", *config)
    assert code == 2
    named = sorted((location, "/elsewhere/orders"))
    assert f"events name lake.sales.orders at several locations: {', '.join(named)}" in err


@pytest.mark.kafka
def test_a_misspelt_table_and_an_invented_instant_are_said_when_a_commit_is_published(
    tidegate: Tidegate, settings_file: Path
) -> None:
    location = savepointed(settings_file.parent, 1)
    commit = ("publish", "commit", "-l", location, "-c", str(settings_file))
    orders = (*commit, "-t", "lake.sales.orders", "--instant")

    condemned = ("publish", "condemned", *orders[2:-1], "--reason", "bad", "--instant")
    for invented in (orders, condemned):
        code, out, err = tidegate(*invented, "20991231000000000")
        assert (code, out) == (2, "")
        assert f"no write 20991231000000000 has completed on the timeline of {location}" in err
        assert f"the newest is {at(4)}" in err
    code, _, err = tidegate(*orders, "latest")
    assert (code, "no event names the table lake.sales.orders" in err) == (0, True)
    code, _, err = tidegate(*orders, at(3))
    assert (code, err) == (0, "")
    code, _, err = tidegate(*commit, "-t", "lake.sales.ordres", "--instant", "latest")
    assert (code, "did you mean lake.sales.orders?" in err) == (0, True)
    elsewhere = ("publish", "commit", "-t", "lake.sales.orders", "-c", str(settings_file))
    for misspelt in (elsewhere, ("publish", "condemned", *elsewhere[2:], "--reason", "bad")):
        code, out, err = tidegate(*misspelt, "-l", f"{location}x", "--instant", at(3))
        assert (code, out, f"there is no Hudi table at {location}x" in err) == (1, "", True)
    code, _, err = tidegate(*elsewhere, "-l", "/elsewhere/orders", "--instant", at(3))
    assert (code, "not compared with the timeline" in err) == (0, True)


@pytest.mark.kafka
def test_what_is_not_given_of_a_commit_is_read_off_the_timeline(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    orders = merge_on_read(settings_file.parent / "orders", 9)
    write = Instant(at(5), Action.DELTA_COMMIT, InstantState.COMPLETED, end_of(at(5)))
    record = {"operationType": "UPSERT", "partitionToWriteStats": {}}
    orders.put(write, orders.metadata("HoodieCommitMetadata", record))
    location = orders.location
    table = ("-t", "lake.sales.orders", "-l", location, "-c", str(settings_file))
    commit = ("publish", "commit", *table, "--instant", at(5))
    monitor = TopicMonitor(bootstrap_servers, topic_prefix, 1)

    for option, wrong, known in (
        ("--operation", "uppsert", "upsert"),
        ("--table-type", "copy_on_write", "merge_on_read"),
        ("--action", "commit", "deltacommit"),
        ("--completion-time", at(9), end_of(at(5))),
    ):
        code, _, err = tidegate(*commit, option, wrong)
        problem = f"{option} {wrong} contradicts the timeline of {location}: the write {at(5)} has"
        assert (code, f"{problem} {known}" in err) == (2, True)
    assert monitor.events("commits") == []

    assert tidegate(*commit)[0] == 0
    right = ("--operation", "UPSERT", "--table-type", "merge_on_read", "--action", "deltacommit")
    assert tidegate(*commit, *right)[0] == 0
    first, again = monitor.events("commits")
    for done in (first, again):
        assert isinstance(done, CommitCompleted)
        assert (done.action, done.operation, done.table_type, done.completion_time) == (
            "deltacommit",
            "upsert",
            "merge_on_read",
            end_of(at(5)),
        )
        assert done.files_written == 0


@pytest.mark.parametrize(
    ("kind", "writers"),
    [
        ("RestoreCompleted", "savepoint-writer or restorer or cleaner or coordinator"),
        ("CleaningReleased", "coordinator"),
        ("DeadLetterDiscarded", "`tidegate dead-letters`"),
    ],
)
def test_an_event_that_only_a_service_publishes_is_refused(
    tidegate: Tidegate, tmp_path: Path, kind: str, writers: str
) -> None:
    _, example, _ = tidegate("schemas", "example", kind)
    (tmp_path / "event.json").write_text(example)

    code, out, err = tidegate("publish", "event", kind, str(tmp_path / "event.json"))

    assert (code, out) == (2, "")
    assert f"a {kind} is published by {writers} only, on the topic " in err


@pytest.mark.kafka
def test_what_is_remarked_on_a_commit_is_so_on_an_event_from_a_file(
    tidegate: Tidegate, settings_file: Path
) -> None:
    file, at_deployment = settings_file.parent / "event.json", ("-c", str(settings_file))
    _, example, _ = tidegate("schemas", "example", "CommitCompleted")
    commit = json.loads(example) | {"event_id": "", "table": "lake.sales.new"}
    file.write_text(json.dumps(commit | {"location": "/elsewhere/new"}))

    code, _, err = tidegate("publish", "event", "CommitCompleted", str(file), *at_deployment)
    assert code == 0
    assert "note: no event names the table lake.sales.new" in err
    assert f"note: /elsewhere/new is outside the warehouse roots: {settings_file.parent}" in err
    file.write_text(json.dumps(commit | {"location": str(settings_file.parent / "new")}))
    code, _, err = tidegate("publish", "event", "CommitCompleted", str(file), *at_deployment)
    assert (code, err) == (0, "")
    bad = ("publish", "condemned", "-t", "lake.sales.nwe", "-l", "/elsewhere/new", "--reason", "x")
    code, _, err = tidegate(*bad, "--instant", at(1), *at_deployment)
    assert (code, "did you mean lake.sales.new?" in err, "is outside" in err) == (0, True, True)


@pytest.mark.parametrize(
    "command",
    [
        "savepoints list ./orders",
        "plan restore --savepoint latest -l orders",
        "plan savepoint-removal --savepoint latest -l orders",
        "publish savepoint-removal -t a.b.c --savepoint latest -l orders --reason x",
        "publish savepoint -t a.b.c -l orders",
    ],
)
def test_a_relative_location_is_a_mistake_of_the_caller(
    tidegate: Tidegate, tmp_path: Path, command: str
) -> None:
    savepointed(tmp_path)
    code, _, err = tidegate(*command.split(), "-c", str(tmp_path / "tidegate.toml"))

    assert (code, "orders: not an absolute path or URI, e.g. /lake/orders" in err) == (2, True)


@pytest.mark.kafka
@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_second_name_of_a_table_is_refused_with_the_first(
    tidegate: Tidegate,
    settings_file: Path,
    bootstrap_servers: str,
    topic_prefix: str,
    *,
    is_claimed: bool,
) -> None:
    location = savepointed(settings_file.parent, 1)
    if is_claimed:  # else the table's own properties have its name
        task = Task(1, "task-1", "lake.sales.orders", "a-cluster/tidegate")
        claim_table(warehouse_over(settings_file.parent), location, task)
    second = "lake.sales.orders2" if not is_claimed else "copy.sales.orders"
    table = ("-t", second, "-l", location, "-c", str(settings_file))
    owner = "belongs to the table lake.sales.orders" if is_claimed else "is sales.orders"

    code, _, err = tidegate("publish", "commit", *table, "--instant", at(4))
    assert (code, "note: " in err, owner in err) == (0, True, True)
    code, _, err = tidegate("publish", "savepoint", *table)
    assert (code, owner in err) == (2, True)
    code, _, err = tidegate("plan", "restore", *table, "--savepoint", "latest")
    assert (code, owner in err) == (1, True)
    monitor = TopicMonitor(bootstrap_servers, topic_prefix, 1)
    assert monitor.events("requests") == []
    ended = ("publish", "withdraw", *table, "--reason", "x", "--request", "r-1", "--new")
    code, _, err = tidegate(*ended)
    assert (code, owner in err, len(monitor.events("requests"))) == (0, True, 1)


@pytest.mark.kafka
def test_a_savepoint_of_the_latest_commit_may_be_requested_as_such(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    orders = ("-t", "lake.sales.orders", "-l", "/lake/orders", "--new", "-c", str(settings_file))

    assert tidegate("publish", "savepoint", *orders, "--instant", "latest")[0] == 0

    [asked] = TopicMonitor(bootstrap_servers, topic_prefix, 1).events("requests")
    assert asked.instant is None  # type: ignore[attr-defined]


@pytest.mark.kafka
def test_another_location_than_that_of_the_table_is_said_when_a_lock_ends(
    tidegate: Tidegate, settings_file: Path
) -> None:
    table = ("-t", "lake.web.visits", "-c", str(settings_file), "-l")
    released = ("publish", "lock-released", "--lock-id", "7", *table)
    note = "note: events name lake.web.visits at /lake/visits, not at /lake/vists"
    commit = ("publish", "commit", "--instant", at(1), *table, "/lake/visits")

    assert tidegate(*commit)[0] == 0
    code, _, err = tidegate(*released, "/lake/vists")
    assert (code, note in err) == (0, True)
    code, _, err = tidegate(*released, "/lake/visits/")
    assert (code, "not at" in err) == (0, False)


def test_the_end_of_a_lock_is_signed_with_the_key_that_is_given(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    released = ("publish", "lock-released", "-t", "hive.web.visits", "-l", "/lake/visits")
    code, _, err = tidegate(*released, "--lock-id", "7", "--sign-with", str(tmp_path / "no.pem"))

    assert code == 2
    assert "the private key can't be read" in err


@pytest.mark.kafka
def test_a_key_that_the_settings_do_not_let_sign_is_said_at_once(
    tidegate: Tidegate, settings_file: Path, tmp_path: Path
) -> None:
    file, key = tmp_path / "ana.pem", SigningKey.generate()
    file.touch(0o600)
    file.write_bytes(key.private_pem)
    entry = f"name = 'ana'\nroles = ['holder']\npublic_key = '''{key.public_pem}'''\n"
    settings_file.write_text(f"{settings_file.read_text()}\n[[security.keys]]\n{entry}")
    table = ("-t", "lake.web.visits", "-l", "/lake/visits", "-c", str(settings_file))
    signed = (*table, "--sign-with", str(file))
    why = f"the key {key.key_id[:8]} of ana may not sign a "

    code, _, err = tidegate("publish", "lock-released", "--lock-id", "7", *signed)
    assert (code, f"note: {why}LockReleased: its roles are holder" in err) == (0, True)
    code, _, err = tidegate("publish", "savepoint", "--new", *signed)
    assert (code, err.startswith(f"tidegate: {why}SavepointRequested")) == (2, True)
    hold = ("hold", "add", "lake.web.visits", "--reason", "x", *signed[4:])
    assert why not in tidegate(*hold)[2]


def test_a_misspelt_event_is_answered_with_the_nearest_name(tidegate: Tidegate) -> None:
    code, _, err = tidegate("schemas", "example", "CommitCompletd")

    assert code == 2
    assert "unknown event CommitCompletd; did you mean CommitCompleted?" in err


def test_a_settings_file_that_is_not_there_is_named_with_the_way_to_make_one(
    tidegate: Tidegate,
) -> None:
    code, _, err = tidegate("status", "-c", "nosuch.toml")

    assert code == 2
    assert "there is no settings file nosuch.toml" in err
    assert "tidegate config init > nosuch.toml" in err


@pytest.mark.kafka
def test_a_restore_to_the_latest_savepoint_names_its_instant(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    location = savepointed(settings_file.parent, 1, 2)
    table = ("-t", "lake.sales.orders", "-l", location, "--new", "-c", str(settings_file))
    asked = ("publish", "restore", "--reason", "bad", *table)

    assert tidegate(*asked, "--savepoint", "latest")[0] == 0
    assert tidegate(*asked, "--savepoint", "latest~1")[0] == 0

    requests = TopicMonitor(bootstrap_servers, topic_prefix, 1).events("requests")
    chosen = [request.savepoint for request in requests if isinstance(request, RestoreRequested)]
    assert chosen == [at(2), at(1)]


@pytest.mark.kafka
def test_waiting_prints_a_line_for_people_and_json_for_scripts(
    tidegate: Tidegate, settings_file: Path
) -> None:
    hold = ("hold", "add", "lake.sales.orders", "--reason", "x", "--new", "-c", str(settings_file))

    code, out, err = tidegate(*hold, "--wait", "--timeout", "1s")
    assert code == 4
    verdict, hint = out.splitlines()
    assert verdict == "unanswered: no final outcome within 1 s"
    assert hint.startswith("it may still come: tidegate explain ")
    assert "published " in err

    code, out, _ = tidegate(*hold)
    published, hint = out.splitlines()
    assert code == 0
    assert published.startswith("published ")
    assert hint == f"its outcome: tidegate explain {published.split()[1]}"

    code, out, _ = tidegate(*hold, "--wait", "--timeout", "1s", "--json")
    assert code == 4
    assert json.loads(out)["verdict"] == "unanswered"


@pytest.mark.kafka
def test_a_wait_while_no_service_runs_names_the_command_that_starts_it(
    tidegate: Tidegate, settings_file: Path
) -> None:
    at = ("lake.sales.orders", "--reason", "x", "--new", "-c", str(settings_file))
    wait = ("--wait", "--timeout", "1s")
    savepoint = ("publish", "savepoint", "-t", *at[:1], "-l", "/l", *at[3:])

    _, _, err = tidegate("hold", "add", *at, *wait)
    needed = "not running, but needed for an outcome: coordinator"
    assert f"note: {needed}: tidegate run coordinator\n" in err
    assert err.index(needed) < err.index("waiting for its outcome")
    _, _, err = tidegate(*savepoint, *wait)
    run = "tidegate run coordinator savepoint-writer"
    assert f"{needed}, savepoint-writer: {run}\n" in err
    assert "not running" not in tidegate("hold", "add", *at)[2]


def test_a_broker_that_is_away_is_reported_before_a_wait_begins(
    tidegate: Tidegate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait gives a broker ten seconds, which a person at a terminal need not spend."""
    begun: list[object] = []

    def watch(*arguments: object, **_: object) -> None:
        begun.append(arguments)

    monkeypatch.setattr(Publisher, "watch", watch)

    code, _, err = tidegate("hold", "add", "lake.sales.orders", "--reason", "x", "--wait")
    assert (code, begun) == (1, [])
    assert "no broker answers at 127.0.0.1:9" in err


@pytest.mark.kafka
def test_a_request_of_a_person_who_may_not_read_the_events_names_the_right_and_the_way_out(
    tidegate: Tidegate, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise StopService("reading lit.commits[0]: Broker: Topic authorization failed")

    monkeypatch.setattr(EventLog, "check_named", denied)
    hold = ("hold", "add", "lake.sales.orders", "--reason", "x", "-c", str(settings_file))

    code, _, err = tidegate(*hold)
    assert code == 1
    assert (
        "whether an event names lake.sales.orders can't be read: reading lit.commits[0]: Broker:"
        " Topic authorization failed; --new sends it unchecked"
    ) in err
    assert tidegate(*hold, "--new")[0] == 0


@pytest.mark.kafka
def test_a_plan_names_the_request_of_it_that_waits_for_an_approval(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    location, orders = savepointed(settings_file.parent, 1, 2), ("-t", "lake.sales.orders")
    config = ("-c", str(settings_file))
    commit = ("publish", "commit", *orders, *config, "-l", location, "--instant", at(4))
    assert tidegate(*commit)[0] == 0
    plan = ("plan", "restore", *orders, "--savepoint", at(2), *config)
    _, out, _ = tidegate(*plan)
    assert "approval" not in out
    plan_id = json.loads(tidegate(*plan, "--json")[1])["plan_id"]
    asked = restore_request().model_copy(update={"location": location, "savepoint": at(2)})
    waits = awaiting(asked)

    publish(bootstrap_servers, topic_prefix, asked, waits)
    _, out, _ = tidegate(*plan)
    another = f"Another restore, to {at(2)}, was requested by ana (unsigned), and has waited for "
    assert another in out
    assert "To do it: " in out
    publish(
        bootstrap_servers,
        topic_prefix,
        waits.model_copy(update={"plan_id": plan_id, "caused_by": "restore-2"}),
    )
    _, out, _ = tidegate(*plan)
    [approve] = [line for line in out.splitlines() if line.startswith("This restore was requested")]
    assert f": tidegate publish approval --request restore-2 --plan-id {plan_id}" in approve
    assert "To do it: " not in out


@pytest.mark.kafka
def test_the_removal_of_a_hold_that_does_not_exist_says_so(
    tidegate: Tidegate, settings_file: Path
) -> None:
    at = ("lake.sales.orders", "--reason", "x", "--new", "-c", str(settings_file))

    code, _, err = tidegate("hold", "remove", *at)
    assert (code, "note: lake.sales.orders is not on hold" in err) == (0, True)


def test_the_latest_commit_is_the_one_that_the_timeline_has(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    place = str(tmp_path / "orders")
    commit = ("publish", "commit", "-t", "lake.sales.orders", "--instant", "latest", "-l")

    assert tidegate(*commit, place)[2] == (
        f"tidegate: there is no Hudi table at {place}: it has no .hoodie/hoodie.properties\n"
    )
    four_commits(tmp_path / "orders", 9)
    assert "no broker answers" in tidegate(*commit, place)[2]
    wrong = f"tidegate: --action deltacommit contradicts the timeline of {place}: the write {at(4)}"
    code, _, err = tidegate(*commit, place, "--action", "deltacommit")
    assert (code, err) == (2, f"{wrong} has commit\n")


@pytest.mark.kafka
def test_a_request_is_withdrawn_by_the_first_characters_of_its_id(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    table = ("-t", "lake.sales.orders", "-l", "/lake/orders", "-c", str(settings_file))
    ids = ("11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "11111111-bbbb-4bbb-8bbb-bbbbbbbbbbbb")
    for request in ids:
        savepoint = ("publish", "savepoint", *table, "--new", "--request-id", request)
        assert tidegate(*savepoint)[0] == 0
    withdraw = ("publish", "withdraw", *table, "--reason", "x", "--request")

    code, _, err = tidegate(*withdraw, "11111111")
    assert (code, "several requests begin with 11111111" in err) == (2, True)
    code, _, err = tidegate(*withdraw, f"{ids[1]}c"[1:])
    unknown = f" has the id {ids[1][1:]}c; did you mean {ids[1]}? (--new sends it unchecked)"
    assert (code, unknown in err) == (2, True)
    code, _, err = tidegate(*withdraw, ids[0], "-t", "lake.sales.order")
    assert (code, "order; did you mean lake.sales.orders?" in err) == (2, True)
    assert tidegate(*withdraw, "11111111-b")[0] == 0
    asked = TopicMonitor(bootstrap_servers, topic_prefix, 1).events("requests")[-1]
    assert isinstance(asked, WithdrawalRequested)
    assert asked.request == ids[1]


@pytest.mark.kafka
def test_a_request_that_a_condemned_commit_led_to_is_addressed_as_a_persons_is(
    tidegate: Tidegate, settings_file: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    own = restore_request("22222222-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
    made = own.model_copy(update={"source": "coordinator", "needs_approval": True})
    publish(bootstrap_servers, topic_prefix, task_of(made, prefix=topic_prefix), awaiting(made))
    at = ("-t", made.table, "-l", made.location, "--reason", "x", "-c", str(settings_file))
    approval = ("publish", "approval", *at, "--plan-id", "p1", "--requested-by", "ben")

    for command in (("publish", "withdraw", *at), approval):
        assert tidegate(*command, "--request", "22222222")[0] == 0
        asked = TopicMonitor(bootstrap_servers, topic_prefix, 1).events("requests")[-1]
        assert getattr(asked, "request", None) == made.event_id
    for shown in ("22222222", made.event_id):
        code, out, _ = tidegate("explain", shown, "-c", str(settings_file))
        assert (code, "RestoreAwaitingApproval" in out, "RestoreRequested" in out) == (
            0,
            True,
            True,
        )
