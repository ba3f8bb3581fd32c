"""Every command as its role, on a broker that allows the printed rights and nothing else."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.request import urlopen

import pytest
import typer

from support.deployment import Deployment
from support.deployment_events import vacuum
from support.embedded_metastore import EmbeddedMetastore
from support.hudi_tables import four_commits
from support.json_lines import json_lines
from support.samples import NOON, commit, release, savepoint_request, task_of
from support.secure_kafka import DISTINGUISHED, SecureKafka, secure_kafka
from support.waiting import wait_for
from tidegate import cli
from tidegate.cleaning.executor import Cleaner
from tidegate.coordinator.quarantines import quarantines
from tidegate.embedded.process import Child, free_ports
from tidegate.errors import FormatError
from tidegate.events import CleaningMode, CleaningReleased, CleaningStarted, Event, TaskIssued
from tidegate.events.topics import topic_of
from tidegate.events.wire import Wire, command_of
from tidegate.ops.acls import Acl
from tidegate.ops.waiting import gate_stores, waiting_vacuums
from tidegate.publisher import Message
from tidegate.runtime.input.dead_letters import ID_HEADER
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import SERVICES
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
RUNNING, STOPPED, NEW = "lit.team", "stopped", "new"
"""Three deployments: with its services, without, and one whose topics are still to be created."""
ORDERS, POLICED, ASIDE = "lake.sales.orders", "lake.sales.policed", "lake.log.aside"
AT = ("-t", ORDERS, "-l", "/lake/orders")
INSTANT = "20260301100000001"
SETTINGS = """
[[savepoints]]
tables = "*.policed"
when = "every_commit"
lifetime = "forever"
"""


@dataclass(frozen=True)
class Case:
    """One command as a role: its exit code, and what it prints. Faults of rights may be rare."""

    role: str
    command: str
    arguments: tuple[str, ...] = ()
    code: int = 0
    prints: str = ""
    times: int = 1
    prefix: str = RUNNING

    def __str__(self) -> str:
        return f"{self.command} as {self.role}"


CASES = (
    # it ends with 1 for the dead letters
    Case("people", "status", (), 1, "2 open dead letters", times=5),
    Case("people", "outcomes", prints=ASIDE, times=8),
    Case("people", "outcomes", ("--since", "1h", "-t", ASIDE), prints=ASIDE, times=5),
    Case("people", "waiting", prints=ORDERS, times=5),
    Case("people", "events tail", ("--topic", "commits", "--no-follow"), times=5),
    Case("people", "events tail", ("--topic", "tasks", "--no-follow"), prints=ASIDE),
    Case("people", "explain", (ORDERS,), prints="VacuumFinished", times=5),
    Case("people", "undo", (ASIDE, "--reason", "x", "--wait"), 3, "UndoRefused", times=6),
    Case("people", "simulate", prints=POLICED, times=5),
    Case("people", "hold add", (ORDERS, "--reason", "x", "--wait"), prints="CleaningHeld"),
    Case("people", "events tail", ("--topic", "requests", "--no-follow"), prints="Requested"),
    Case("people", "hold list", prints="  held since ", times=5),
    Case("people", "hold remove", (ORDERS, "--reason", "x", "--wait"), prints="HoldRemoved"),
    Case("people", "publish savepoint", (*AT, "--wait"), 3, "SavepointRejected", times=3),
    Case("people", "publish savepoint-removal", (*AT, "--instant", INSTANT, "--reason", "x")),
    Case(
        "people",
        "publish restore",
        (*AT, "--savepoint", INSTANT, "--reason", "x", "--request-id", "r-1"),
    ),
    Case(
        "people",
        "publish approval",
        (*AT, "--request", "r-1", "--plan-id", "p-1", "--reason", "x", "--requested-by", "ben"),
    ),
    Case("people", "publish withdraw", (*AT, "--request", "r-1", "--reason", "x")),
    Case("people", "publish rejection", (*AT, "--request", "r-1", "--reason", "x")),
    Case("people", "dead-letters list", prints="commits", times=5),
    Case("people", "dead-letters show", ("{dead_letter}",), prints="commits", times=3),
    Case("operators", "dead-letters redrive", ("{dead_letter}", "--execute")),
    Case("people", "dead-letters discard", ("{other}", "--reason", "x", "--execute")),
    Case("monitoring", "outcomes", prints=ASIDE, times=3),
    Case("monitoring", "status", (), 1, "1 open dead letter", times=3),
    Case("monitoring", "waiting", prints=ORDERS, times=3),
    Case("monitoring", "hold list", times=3),
    Case("monitoring", "dead-letters list", prints="commits", times=3),
    Case("upstream-writers", "publish commit", (*AT, "--instant", INSTANT), times=3),
    Case("upstream-writers", "publish condemned", (*AT, "--instant", INSTANT, "--reason", "x")),
    Case("upstream-writers", "publish lock-released", (*AT, "--lock-id", "77")),
    Case("upstream-writers", "publish event", ("VacuumFinished", "{vacuum}")),
    # whose facts are answered does not concern a writer: refused, and before anything is published
    Case(
        "upstream-writers",
        "publish event",
        ("VacuumFinished", "{vacuum}", "--wait"),
        2,
        "lit.team.outcomes",
        times=3,
    ),
    Case("operators", "doctor", prints="all 8 are as declared", times=2),
    Case("operators", "topics check", prints="as declared", times=3),
    Case("operators", "topics create", prints="created", prefix=NEW),
    Case("operators", "topics create", prints="exists already", prefix=NEW, times=2),
    Case(
        "operators",
        "skip",
        (
            *("--service", "savepoint-writer", "--topic", "tasks", "--partition", "0"),
            *("--offset", "0", "--reason", "x", "--execute"),
        ),
        prefix=STOPPED,
        prints="goes on after",
    ),
    Case(
        "operators",
        "skip",
        (
            *("--service", "coordinator", "--topic", "vacuums", "--partition", "0"),
            *("--offset", "0", "--reason", "x", "--execute"),
        ),
        prefix=STOPPED,
        prints="goes on after",
    ),
    Case(
        "operators",
        "replay group",
        ("coordinator", "--to-earliest", "--execute"),
        prefix=STOPPED,
        prints="coordinator",
        times=2,
    ),
    Case(
        "operators",
        "replay events",
        ("--topic", "commits", "--since", "2026-01-01T00:00:00Z", "--execute"),
        prefix=STOPPED,
        prints=ORDERS,
        times=2,
    ),
    *(
        Case(
            role, "doctor", (role,), prints=f"access {role}: this principal has all", prefix=STOPPED
        )
        for role in SERVICES
    ),
)
PROCESSES = {"run", "monitor", "bridge hudi", "bridge metastore", "bridge accept-metastore"}
"""Their tests are below."""
WITHOUT_KAFKA = {
    "asyncapi",
    "broker",
    "config check",
    "config diff",
    "config init",
    "config show",
    "keys new",
    "keys show",
    "plan clean",
    "plan restore",
    "plan retention",
    "plan savepoint-removal",
    "savepoints list",
    "schemas example",
    "schemas export",
    "spark-archive",
    "topics acls",
    "topics describe",
}
"""They ask no broker, or one that they start themselves."""

OF_A_TABLE = {"savepoints remove"}
"""They read a table, then they request as `publish savepoint-removal`."""


def test_every_command_is_here() -> None:
    assert set(commands(typer.main.get_command(cli.app))) == (
        {case.command for case in CASES} | PROCESSES | WITHOUT_KAFKA | OF_A_TABLE
    )


def commands(command: typer.main.Command, *names: str) -> Iterator[str]:  # type: ignore[name-defined]
    nested: Mapping[str, typer.main.Command] = getattr(command, "commands", {})  # type: ignore[name-defined]
    if not nested:
        yield " ".join(names)
    for name, below in nested.items():
        yield from commands(below, *names, name)


@dataclass
class Place:
    """One broker, its deployments, and what was published before."""

    kafka: SecureKafka
    folder: Path
    deployments: dict[str, Deployment] = field(default_factory=dict[str, Deployment])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def file(self, prefix: str, role: str, more: str = "") -> Path:
        """The settings of a role: what its owner would have."""
        folder = self.folder / prefix
        folder.mkdir(exist_ok=True)
        login = {"bootstrap.servers": self.kafka.servers, **self.kafka.login(role)}
        lines = [
            "[kafka]",
            *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in login.items()),
            "[topics]",
            f'prefix = "{prefix}"',
            "partitions = 1",
            "[warehouse]",
            f'roots = ["{folder}"]',
            "[services]",
            "session_timeout_ms = 6000",
            SETTINGS,
            more,
        ]
        file = folder / f"{role}.toml"
        file.write_text("\n".join(lines))
        return file

    def start(self, prefix: str, role: str, *command: str, more: str = "") -> Child:
        deployment = self.deployments[prefix]
        file = self.file(prefix, role, more)
        return deployment.start(f"{role} {command[-1]}", *command, "-c", str(file))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rights")
    with secure_kafka(folder) as kafka:
        place = Place(kafka, folder)
        for prefix in (RUNNING, STOPPED, NEW):
            kafka.allow(printed_rights(folder, prefix))
        for prefix in (RUNNING, STOPPED):
            (folder / prefix).mkdir()
            place.deployments[prefix] = Deployment(
                kafka.servers, prefix, folder / prefix, client=kafka.admin
            )
        with place.deployments[RUNNING], place.deployments[STOPPED]:
            yield place


def printed_rights(folder: Path, prefix: str) -> list[Acl]:
    """Exactly those of `tidegate topics acls`."""
    file = folder / f"{prefix}.toml"
    people = ["User:people", f"User:{DISTINGUISHED}"]
    file.write_text(
        f"[security.principals]\npeople = {json.dumps(people)}\n"
        f'[topics]\nprefix = "{prefix}"\n[bridge.hudi]\ntables = ["/lake/*"]\ncatalog = "hudi"\n'
    )
    rows = json_lines(called("topics", "acls", "--json", "-c", str(file)))
    return [Acl(**{**row, "principals": tuple(row["principals"])}) for row in rows]


def called(*arguments: str) -> str:
    printed, code = call(*arguments)
    assert code == 0, printed
    return printed


def call(*arguments: str) -> tuple[str, int]:
    """What a person sees of a command, and its exit code; a crash is raised."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patched,
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        patched.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
        patched.setattr(sys, "argv", ["tidegate", *arguments])
        try:
            cli.main()
        except SystemExit as ended:
            return printed.getvalue(), int(ended.code or 0)
    return printed.getvalue(), 0


@pytest.fixture(scope="module")
def history(place: Place) -> Iterator[Place]:
    """Services under way as their roles, a vacuum that waits, a quarantine, two dead letters."""
    deployment = place.deployments[RUNNING]
    others = [name for name in SERVICES if name != Cleaner.name]
    children = [place.start(RUNNING, name, "run", name) for name in others]
    publish(place, RUNNING, "bridges", vacuum(17, 18), commit(1, POLICED))
    publish(place, RUNNING, "bridges", vacuum(21, table=ASIDE), release(21, ASIDE))

    def cleaning() -> TaskIssued | None:
        found = [it for it in events(deployment, "tasks") if it.table == ASIDE]
        return cast("TaskIssued", found[0]) if found else None

    # the coordinator believes only what is of a task under way, so the cleaner starts after it
    publish(place, RUNNING, "cleaner", quarantined(wait_for("the task", cleaning)))
    children += [place.start(RUNNING, "cleaner", "run", "cleaner")]
    for name in ("dead_letter", "other"):
        known = {record.offset for record in deployment.records("dead-letters")}
        poison = Message(f"{RUNNING}.commits", name.encode(), b"poison")
        KafkaBus(deployment.connection).send([poison])

        def dead_letter(known: set[int] = known) -> str | None:
            new = [r for r in deployment.records("dead-letters") if r.offset not in known]
            return (dict(new[0].headers)[ID_HEADER] or b"").decode() if new else None

        place.names[name] = wait_for("a dead letter", dead_letter)
    admin = Settings.load(place.file(RUNNING, "admin"))
    wait_for("the gate's state", lambda: list(waiting_vacuums(admin)))
    wait_for(
        "the quarantine", lambda: [q for s in gate_stores(admin, ASIDE) for q in quarantines(s)]
    )
    place.names["vacuum"] = str(place.folder / "vacuum.json")
    Path(place.names["vacuum"]).write_text(called("schemas", "example", "VacuumFinished"))
    publish(place, STOPPED, "bridges", vacuum(17, 18), commit(1), release(1))
    publish(place, STOPPED, "people", savepoint_request(1))
    publish(place, STOPPED, "coordinator", task_of(savepoint_request(1)))
    yield place
    for child in children:
        child.end(signal.SIGTERM, 20)
        log = child.log.read_text()
        assert child.exit_code == 0, log
        assert "authorization failed" not in log


def publish(place: Place, prefix: str, role: str, *events: Event) -> None:
    bus = KafkaBus({**place.kafka.login(role), "bootstrap.servers": place.kafka.servers})
    bus.send([Wire().serialize(it, topic_of(type(it)).name(prefix)) for it in events])
    bus.close()


def quarantined(task: TaskIssued) -> Event:
    command = command_of(task, Wire())
    assert isinstance(command, CleaningReleased)
    return CleaningStarted.about(
        command,
        directories=command.directories,
        files=2,
        bytes=100,
        mode=CleaningMode.QUARANTINE,
        keep_ms=3_600_000,
        source="cleaner",
        occurred_at=NOON,
    ).to(command)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_role_may_do_what_its_commands_do(case: Case, history: Place) -> None:
    names = history.names
    arguments = [argument.format(**names) for argument in case.arguments]
    file = str(history.file(case.prefix, case.role))
    for _ in range(case.times):
        printed, code = call(*case.command.split(), *arguments, "-c", file)
        assert case.prints in printed
        assert code == case.code, printed
        # a service's own principal can't see the topics of others: the doctor warns of it
        assert case.code == 2 or case.role in SERVICES or "authorization failed" not in printed


def test_a_person_with_a_certificate_has_the_rights_of_people(history: Place) -> None:
    login = history.kafka.certified()
    lines = [f"{json.dumps(name)} = {json.dumps(v)}" for name, v in login.items()]
    file = history.folder / "certified.toml"
    file.write_text("\n".join(["[kafka]", *lines, "[topics]", f'prefix = "{RUNNING}"']))

    for command in ("status", "outcomes", "waiting", "hold list"):
        printed, code = call(*command.split(), "-c", str(file))
        assert code == (1 if command == "status" else 0), printed
        assert "authorization failed" not in printed
    printed, code = call("publish", "commit", *AT, "--instant", INSTANT, "-c", str(file))
    assert code != 0
    assert "authorization failed" in printed


@pytest.mark.usefixtures("history")
def test_the_monitor_exports_the_deployment_under_its_rights(place: Place) -> None:
    port, _ = free_ports()
    more = ("--port", str(port), "--interval", "0.2", "--waiting-interval", "0.5")
    child = place.start(RUNNING, "monitoring", "monitor", *more)

    def exported() -> str | None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text: str = answer.read().decode()
        except OSError:
            return None
        return text if "tidegate_waiting" in text and "consumergroup_lag" in text else None

    wait_for("the metrics", exported)
    child.end(signal.SIGTERM, 20)
    assert child.exit_code == 0, child.tail()
    assert "authorization failed" not in child.log.read_text()


def test_the_bridge_of_hudi_publishes_under_its_rights(history: Place) -> None:
    lake = history.folder / "hudi" / "wh"
    four_commits(lake / "a", 9)
    more = f'[bridge.hudi]\ntables = ["{lake}/*"]\ncatalog = "hudi"\ninterval_ms = 100\n'
    child = history.start(RUNNING, "bridges", "bridge", "hudi", more=more)
    wait_for(
        "its commit",
        lambda: "hudi.wh.a" in {e.table for e in events(history.deployments[RUNNING], "commits")},
    )
    child.end(signal.SIGTERM, 20)
    assert child.exit_code == 0, child.tail()
    assert "authorization failed" not in child.log.read_text()


def events(deployment: Deployment, suffix: str) -> list[Event]:
    """Those that can be decoded."""
    wire = Wire()
    found: list[Event] = []
    for record in deployment.records(suffix):
        with suppress(FormatError):
            found.append(wire.deserialize(record.key, record.value, record.headers))
    return found


def test_the_bridge_of_a_metastore_works_and_is_reset_under_the_rights(
    history: Place, tmp_path: Path
) -> None:
    with EmbeddedMetastore(tmp_path / "metastore") as metastore:
        more = f'[bridge.metastore]\nuri = "{metastore.uri}"\ncatalog = "hive"\n'
        child = history.start(RUNNING, "bridges", "bridge", "metastore", more=more)
        wait_for("its work", lambda: "this process watches" in child.log.read_text())
        stored = ("bridge", "accept-metastore", "--reason", "a test")
        file = str(history.file(RUNNING, "operators", more))
        wait_for("its position", lambda: "nothing was changed" in call(*stored, "-c", file)[0])
        child.end(signal.SIGTERM, 20)
        assert child.exit_code == 0, child.tail()
        assert "authorization failed" not in child.log.read_text()
        printed, code = call(*stored, "--execute", "--release", "-c", file)
    assert code == 0, printed
    assert "accepted by" in printed
