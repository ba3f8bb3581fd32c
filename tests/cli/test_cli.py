"""The command line: exit codes that mean something, one sentence, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support.acid import INSERT_1, INSERTS, MINOR_3, build
from support.kafka import create_topic
from tidegate.cli import main
from tidegate.events.topics import ALL_TOPICS
from tidegate.runtime.kafka import metadata

CLOSED = "127.0.0.1:9"
INSTANT = "20260301100000001"
ORDERS = ("-t", "lake.sales.orders", "-l", "/lake/orders")
COMMIT = ("publish", "commit", *ORDERS, "--instant", INSTANT)
VACUUM = {
    "table": "lake.sales.orders",
    "location": "/lake/orders",
    "occurred_at": "2026-03-01T12:00:00Z",
    "source": "hive",
    "kind": "minor",
    "directories": ["delta_0000001_0000003"],
    "min_write_id": 1,
    "max_write_id": 3,
    "valid_write_ids": "sales.orders:3:9223372036854775807::",
    "own_lock_id": 7,
    "locks": [{"lock_id": 7}],
}


@dataclass(frozen=True)
class Answer:
    code: int | str | None
    out: str
    err: str

    def refuses(self, code: int, sentence: str) -> None:
        assert (self.code, self.out) == (code, "")
        assert self.err.startswith("tidegate: ")
        assert sentence in self.err
        assert self.err.count("\n") == 1


Tidegate = Callable[..., Answer]


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tidegate:
    """The command, called as the installed script calls it."""

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return Answer(ended.value.code or 0, shown.out, shown.err)

    return call


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker is named, but does not answer: what is refused before it, is."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", CLOSED)


def config(folder: Path, servers: str, prefix: str, **topics: object) -> str:
    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    file = folder / "tidegate.toml"
    file.write_text(
        f'[kafka]\n"bootstrap.servers" = "{servers}"\n"delivery.timeout.ms" = 5000\n'
        f'[topics]\nprefix = "{prefix}"\n'
        + "".join(f"{name} = {value}\n" for name, value in topics.items())
        + f'[warehouse]\nroots = ["{lake}"]\n'
    )
    return str(file)


def topics_of(admin: AdminClient, prefix: str) -> list[str]:
    return [name for name in admin.list_topics(timeout=60).topics if name.startswith(prefix)]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(COMMIT, id="publish"),
        pytest.param(("topics", "create"), id="topics create"),
        pytest.param(("run",), id="run"),
    ],
)
def test_without_a_broker_named_the_command_is_wrong(
    tidegate: Tidegate, command: tuple[str, ...]
) -> None:
    tidegate(*command).refuses(2, "no broker is configured")


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("table", ["orders", "a.b", "a.b.c.d", "a..c", "a.b.c/d"])
def test_a_bad_table_name_is_wrong(tidegate: Tidegate, table: str) -> None:
    command = ("publish", "commit", "-t", table, "-l", "/lake/orders", "--instant", INSTANT)

    tidegate(*command).refuses(2, "is not a table name of the form catalog.database.table")


@pytest.mark.usefixtures("closed")
def test_a_release_that_names_nothing_is_wrong(tidegate: Tidegate) -> None:
    command = ("publish", "lock-released", "-t", "lake.sales.orders", "-l", "/lake/orders")

    tidegate(*command).refuses(2, "give lock_id, transaction_id or both")


@pytest.mark.usefixtures("closed")
def test_an_unknown_kind_of_event_is_wrong_and_the_known_ones_are_named(
    tidegate: Tidegate, tmp_path: Path
) -> None:
    answer = tidegate("publish", "event", "VacuumBegan", str(tmp_path / "none.json"))

    answer.refuses(2, "unknown event VacuumBegan; known: AbortedCleaningReleased, AttemptFailed")


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("command", [("publish", "event", "VacuumFinished"), ("plan", "clean")])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param(b"\xff\xfe", "is not UTF-8", id="no text"),
        pytest.param(b"{", "Invalid JSON", id="no JSON"),
        pytest.param(b"[]", "not a valid VacuumFinished", id="no object"),
        pytest.param(
            json.dumps(VACUUM | {"own_lock_id": 8}).encode(),
            "locks must include own_lock_id: a vacuum holds its own lock",
            id="an event that the model refuses",
        ),
        pytest.param(
            json.dumps(VACUUM | {"paths": ["/etc"]}).encode(),
            "paths: is not a field",
            id="a field that the schema does not know",
        ),
    ],
)
def test_a_file_that_holds_no_such_event_is_wrong(
    tidegate: Tidegate,
    tmp_path: Path,
    command: tuple[str, ...],
    content: bytes | None,
    sentence: str,
) -> None:
    file = tmp_path / "event.json"
    if content is not None:
        file.write_bytes(content)

    tidegate(*command, str(file)).refuses(2, sentence)


def test_settings_that_cannot_be_are_wrong(tidegate: Tidegate, tmp_path: Path) -> None:
    tidegate("run", "-c", str(tmp_path / "no\nfile")).refuses(2, "there is no settings file")
    tidegate(*COMMIT, "-c", config(tmp_path, CLOSED, "x", partitions=0)).refuses(
        2, "topics.partitions"
    )


@pytest.mark.kafka
def test_each_publish_command_says_where_the_broker_put_its_event(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix)
    for suffix in ("commits", "vacuums", "locks", "requests"):
        create_topic(bootstrap_servers, f"{topic_prefix}.{suffix}")
    (tmp_path / "vacuum.json").write_text(json.dumps(VACUUM))
    table = ("-t", "lake.sales.orders", "-l", "/lake/orders", "-c", file)
    restore = (
        "restore",
        *table,
        "--savepoint",
        INSTANT,
        "--reason",
        "bad",
        "--requested-by",
        "ana",
    )
    commands = [
        ((*COMMIT[1:], "-c", file), "commits", 0),
        (("lock-released", *table, "--lock-id", "8"), "locks", 0),
        (("savepoint", *table, "--requested-by", "ana"), "requests", 0),
        (restore, "requests", 1),
        (("event", "VacuumFinished", str(tmp_path / "vacuum.json"), "-c", file), "vacuums", 0),
    ]

    for arguments, suffix, offset in commands:
        answer = tidegate("publish", *arguments, "--json")
        assert answer.code == 0
        assert all(line.startswith("tidegate: note: ") for line in answer.err.splitlines())
        receipt = json.loads(answer.out)
        assert receipt.pop("event_id")
        assert receipt == {"topic": f"{topic_prefix}.{suffix}", "partition": 0, "offset": offset}


@pytest.mark.kafka
def test_topics_are_created_once(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix, partitions=2)
    names = [topic.name(topic_prefix) for topic in ALL_TOPICS]

    first = tidegate("topics", "create", "-c", file)
    assert first == Answer(0, "".join(f"{name}: created\n" for name in names), "")
    again = tidegate("topics", "create", "-c", file)
    assert again == Answer(0, "".join(f"{name}: exists already\n" for name in names), "")


@pytest.mark.kafka
def test_a_topic_with_another_number_of_partitions_is_refused_and_none_is_made(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.locks", partitions=3)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    while not topics_of(admin, topic_prefix):
        time.sleep(0.05)
    file = config(tmp_path, bootstrap_servers, topic_prefix, partitions=2)

    tidegate("topics", "create", "-c", file).refuses(
        2, f"topic {topic_prefix}.locks has 3 partitions, but [topics] partitions is 2"
    )
    assert topics_of(admin, topic_prefix) == [f"{topic_prefix}.locks"]


@pytest.mark.kafka
def test_a_topic_that_another_client_made_a_moment_ago_is_compared_too(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.locks", partitions=3)
    file = config(tmp_path, bootstrap_servers, topic_prefix, partitions=2)

    tidegate("topics", "create", "-c", file).refuses(2, "but [topics] partitions is 2")


@pytest.mark.kafka
def test_topics_that_the_broker_cannot_make_are_refused(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix, replication=30)

    tidegate("topics", "create", "-c", file).refuses(2, f"topic {topic_prefix}.commits: ")


@pytest.mark.kafka
def test_running_an_unknown_service_is_wrong_and_the_known_ones_are_named(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix, partitions=1)
    tidegate("topics", "create", "-c", file)

    answer = tidegate("run", "cleaner", "nonsense", "-c", file)
    answer.refuses(2, "unknown service 'nonsense': choose from coordinator")


@pytest.mark.kafka
def test_running_without_the_topics_is_wrong(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix)

    tidegate("run", "-c", file).refuses(2, f" topics are missing ({topic_prefix}.commits, ")


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_services_cleanly(
    tidegate: Tidegate,
    tmp_path: Path,
    bootstrap_servers: str,
    topic_prefix: str,
    number: signal.Signals,
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix, partitions=1)
    tidegate("topics", "create", "-c", file)
    command = [sys.executable, "-m", "tidegate.cli", "run", "-v", "-c", file]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as running:
        assert running.stderr is not None
        watchdog = threading.Timer(30, running.kill)  # a line that never comes must not wait
        watchdog.start()
        assert any("coordinator owns partitions" in line for line in running.stderr)
        watchdog.cancel()
        running.send_signal(number)
        _, shown = running.communicate(timeout=120)

    assert running.returncode == 0
    assert "Traceback" not in shown
    assert shown.count("has left its group") == 4


def test_the_version_is_the_installed_one(tidegate: Tidegate) -> None:
    answer = tidegate("--version")

    assert (answer.code, answer.out) == (0, f"tidegate {version('tidegate')}\n")


@pytest.mark.parametrize("command", [(), ("publish", "commit"), ("replay", "group")])
def test_h_is_short_for_help(tidegate: Tidegate, command: tuple[str, ...]) -> None:
    assert tidegate(*command, "-h") == tidegate(*command, "--help")
    assert tidegate(*command, "-h").code == 0


@pytest.mark.parametrize(
    ("servers", "cause"),
    [
        pytest.param("no-such-host.invalid:9092", "Failed to resolve", id="no such host"),
        pytest.param(CLOSED, "refused", id="no listener"),
    ],
)
def test_a_broker_that_is_not_there_is_named_with_the_cause_within_seconds(
    tidegate: Tidegate, tmp_path: Path, servers: str, cause: str
) -> None:
    began = time.monotonic()
    answer = tidegate(*COMMIT, "-c", config(tmp_path, servers, "x"))

    answer.refuses(1, cause)
    assert servers.partition(":")[0] in answer.err
    assert time.monotonic() - began < 20  # half a minute before, and this machine is slow


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("outcomes",), id="outcomes"),
        pytest.param(("waiting",), id="waiting"),
        pytest.param(("status",), id="status"),
        pytest.param(("explain", "lake.sales.orders"), id="explain"),
        pytest.param(("dead-letters", "list"), id="dead-letters"),
        pytest.param(("replay", "group", "cleaner", "--to-earliest"), id="replay"),
        pytest.param(("topics", "create"), id="topics create"),
        pytest.param(("topics", "check"), id="topics check"),
    ],
)
def test_every_command_that_needs_a_broker_says_so_in_the_same_way(
    tidegate: Tidegate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(metadata, "_PEOPLES_SECONDS", 0.1)

    tidegate(*command, "-c", config(tmp_path, CLOSED, "x")).refuses(1, "refused")


@pytest.mark.kafka
def test_topics_that_are_not_there_are_said_to_be_missing(
    tidegate: Tidegate, tmp_path: Path, bootstrap_servers: str, topic_prefix: str
) -> None:
    file = config(tmp_path, bootstrap_servers, topic_prefix)
    said = "does not exist (yet): check [topics] prefix, or run: tidegate topics create"
    for command in (("outcomes",), COMMIT, ("waiting",), ("dead-letters", "list")):
        tidegate(*command, "-c", file).refuses(2, said)


@pytest.mark.parametrize(
    ("confirm_with", "verdict"),
    [("quarantine", "does not end as an ORC file does"), ("nothing", None)],
)
def test_a_plan_of_a_cleaning_judges_the_products_as_the_cleaner_does(
    tidegate: Tidegate, tmp_path: Path, confirm_with: str, verdict: str | None
) -> None:
    day = "dt=2026-03-01"
    orders = build(tmp_path / "orders" / day, dict.fromkeys((*INSERTS, MINOR_3), 10))
    vacuum = VACUUM | {"location": str(orders.parent), "partition": day}
    (tmp_path / "vacuum.json").write_text(json.dumps(vacuum))
    settings = f'[warehouse]\nroots = ["{tmp_path}"]\n[cleaning]\nconfirm_with = "{confirm_with}"\n'
    (tmp_path / "tidegate.toml").write_text(settings)

    answer = tidegate(
        *("plan", "clean", str(tmp_path / "vacuum.json"), "-c", str(tmp_path / "tidegate.toml"))
    )

    if verdict is None:
        assert f"partition: {day}\n" in answer.out
        assert f"would remove {INSERT_1}" in answer.out
    else:
        answer.refuses(1, verdict)
    assert {path.name for path in orders.iterdir()} == {*INSERTS, MINOR_3}
