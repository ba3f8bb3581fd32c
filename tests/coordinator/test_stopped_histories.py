"""Random histories of tasks, holds and withdrawals, with crashes, stalls, copies and redrives.

In some, all is signed, and a stranger writes to every topic.

The coordinator, its changelog, the claims on the table and what workers publish are the real ones.
What a worker does to the table is two steps, so that a task may be half way. The changelog may be
lost: then people do what the runbook says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from support.memory_bus import MemoryBus
from support.samples import NOON, ended, events_on, message, release
from support.signing import ANA, COORDINATOR, EVE, SERVICES, signed
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.requests import ENDS
from tidegate.events import (
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningRefused,
    CleaningReleased,
    CleaningUndone,
    CleaningUndoRequested,
    Command,
    Event,
    LockHold,
    Outcome,
    RequestWithdrawn,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreRequested,
    StopRequested,
    TaskEnded,
    TaskIssued,
    VacuumFinished,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.events.base import answered_by
from tidegate.events.reasons import Reason
from tidegate.events.refusals import refusal
from tidegate.events.signature import KeyRole
from tidegate.events.topics import ALL_TOPICS
from tidegate.events.wire import Wire, command_of
from tidegate.publisher import Message
from tidegate.runtime.authorization import Authorization, TrustedKey
from tidegate.runtime.bus import Record
from tidegate.runtime.executor.command_runner import Attempts, CommandRunner
from tidegate.runtime.protocols import Published
from tidegate.runtime.retry import RetryPolicy
from tidegate.signatures import PublicKey, signer
from tidegate.tables import task_numbers
from tidegate.tables.claim import HIVE, Claim, Task
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

TABLE = "hive.sales.orders"
STRANGER = "stranger"
PEOPLE = TrustedKey(
    "people",
    PublicKey(ANA.public_pem),
    (KeyRole.WRITER, KeyRole.REQUESTER, KeyRole.APPROVER, KeyRole.HOLDER),
)
HISTORIES = 100
STEPS = 14
CHOICES = (
    ("coordinate",) * 4
    + ("work",) * 4
    + ("vacuum", "restore") * 2
    + (*("copy", "restart", "approve", "withdraw", "hold", "remove", "redrive", "undo", "lose"),)
)
MEANWHILE = (
    *((), (), ("hold", "coordinate"), ("withdraw", "coordinate", "newest", "coordinate")),
    *(("hold", "coordinate", "newest", "coordinate"), ("other", "hold", "coordinate")),
    *(("redrive", "coordinate", "withdraw", "coordinate"), ("",) * 4, ("lose", "coordinate")),
)
"""What others do while a worker stalls."""
LEFT_OPEN = ("task", "queued", "failed", "stopping", "unconfirmed")


class Died(BaseException):
    """A process has died."""


class Bus(MemoryBus):
    """A process may die between any two records, or stall before it publishes."""

    def __init__(self) -> None:
        super().__init__([topic.name() for topic in ALL_TOPICS], 1)
        self.records_left = 10**9
        self.before_outcomes: Callable[[], object] = lambda: None

    def send(self, messages: Sequence[Message]) -> None:
        for item in messages:
            if item.topic == "tidegate.outcomes":
                try:
                    self.before_outcomes()
                except OSError:  # a store's; for a broker people wait
                    raise Died from None
            self.records_left -= 1
            if self.records_left < 0:
                raise Died
            super().send([item])


@dataclass
class Worker:
    """Changes the table in two steps, each behind a check of the claim."""

    warehouse: Warehouse
    location: str
    pause: Callable[[], object]
    change: Callable[[Command], None]
    name: ClassVar[str] = "cleaner"
    consumes: ClassVar[tuple[type[Command], ...]] = (
        *(CleaningReleased, CleaningUndoRequested, RestoreRequested),
    )

    def claim(self, command: Command, task: Task) -> Claim:  # noqa: ARG002 - the protocol's
        return Claim.take(self.warehouse, self.location, HIVE, task)

    def execute(
        self, command: Command, claim: AnyClaim = NO_CLAIM, grounds: Sequence[Published] = ()
    ) -> Iterator[Outcome]:
        is_waiting = command.event_id.startswith("approved") and len(grounds) < 2
        if is_waiting and isinstance(command, RestoreRequested):
            plan = {"savepoint": command.savepoint, "plan_id": "p", "instants": ()}
            until = {"expires_at": NOON + timedelta(days=10_000), "files": 0, "bytes": 0}
            about = {"occurred_at": NOON, "source": self.name}
            yield RestoreAwaitingApproval.about(command, **plan, **until, **about)
            return
        for _ in range(2):
            self.pause()
            claim.check()
            self.change(command)
        if isinstance(command, CleaningUndoRequested):
            counts = {"directories": (), "files": 0, "bytes": 0, "duration_ms": 1}
            about = {"cleaning": command.cleaning, "occurred_at": NOON, "source": self.name}
            yield CleaningUndone.about(command, **counts, **about)
        else:
            yield refusal(command, Reason.NO_SUCH_TABLE, "it is done", self.name, NOON)


@dataclass
class History:
    """One table, its coordinator and its workers, until all is settled."""

    root: Path
    random: Random
    bus: Bus = field(default_factory=Bus)
    changes: list[str] = field(default_factory=list[str])
    """The commands that changed the table."""
    processed: set[int] = field(default_factory=set[int])
    """The offsets of the tasks that a worker has committed."""
    issued_since: int = 0
    """Where the tasks begin that were issued since the changelog was lost."""
    given_up: list[tuple[TaskIssued, Record]] = field(default_factory=list)
    redriven: set[str | None] = field(default_factory=set)
    """The commands that people want to be carried out again, whatever has become of them."""
    requests: list[Command] = field(default_factory=list[Command])
    depth: int = 0
    count: int = 0
    faults: bool = True
    choices: ClassVar[Sequence[str]] = CHOICES

    def __post_init__(self) -> None:
        (self.root / "t").mkdir()
        self.loop = self.coordinator()
        warehouse = Warehouse(WarehouseRoots.of(str(self.root)))
        self.worker = Worker(warehouse, str(self.root / "t"), self.pause, self.changed)

    def coordinator(self) -> CoordinatorLoop:
        """One process."""
        return CoordinatorLoop(ReaderGate(), self.bus)

    def runner(self) -> CommandRunner:
        """One process."""
        return CommandRunner(self.worker, self.bus, "tidegate", Wire(), RetryPolicy(1))

    def publish(self, *events: Event) -> None:
        """As people and writers do it."""
        self.bus.send([message(event) for event in events])

    def events(self, topic: str) -> list[Event]:
        """All events but a stranger's."""
        found = events_on(self.bus, f"tidegate.{topic}")
        return [event for event in found if event.source != STRANGER]

    def run(self) -> None:
        for _ in range(STEPS):
            self.act()
        self.faults = False
        self.ask(CleaningHoldRemovalRequested, "removal")
        if self.random.random() < 0.5:
            self.settle()
            self.undo()
            self.settle()
            self.lose()
        self.settle()
        self.check_end()

    def settle(self) -> None:
        """Work off all that there is; topic after topic is read where rows are rebuilt."""
        known = -1
        while known < (known := len(self.bus.records("tidegate.tasks"))):
            for _ in range(6):
                self.coordinate()
            for record in self.bus.records("tidegate.tasks"):
                self.work(record)
            failed = self.loop._owned[0].store.all("select number from failed")
            for issued, record in self.given_up:
                if (issued.number,) in failed:
                    self.redrive(issued, record)
            self.coordinate()

    def act(self, choice: str = "") -> None:
        """One step of one party, which may die within."""
        choice = choice or self.random.choice(self.choices)
        tasks = self.bus.records("tidegate.tasks")
        match choice:
            case "coordinate" | "restart" | "vacuum" | "undo" | "lose":
                getattr(self, choice)()
            case "work" | "copy" if tasks:
                new = self.unprocessed()
                self.work(self.random.choice(tasks if choice == "copy" or not new else new))
            case "newest" | "other" if tasks:  # a stop, or another worker of the task
                self.work(tasks[-1])
            case "restore":
                kind = self.random.choice(["plain", "approved"])
                self.requests.append(self.restore(kind))
                self.publish(self.requests[-1])
            case "approve" | "withdraw" if self.requests:
                self.decide(choice, self.requests[-1])
            case "hold":
                self.ask(CleaningHoldRequested, "hold")
            case "remove":
                self.ask(CleaningHoldRemovalRequested, "removal")
            case "redrive" if self.given_up:
                self.redrive(*self.random.choice(self.given_up))
            case "forge":
                self.forge()
            case _:
                pass

    # The parties

    def coordinate(self) -> None:
        self.survive(lambda: self.loop.step(0), self.restart, 8)

    def restart(self) -> None:
        """The process is killed; another one begins."""
        self.bus._members["tidegate.coordinator"][0].expel()
        self.loop = self.coordinator()

    def lose(self) -> None:
        """The changelog is lost, and the rows are rebuilt, as the runbook says."""
        while new := self.unprocessed():
            self.work(new[0])
        self.issued_since = len(self.bus.records("tidegate.tasks"))
        self.bus.recreate("tidegate.coordinator.changelog")
        self.bus.committed["tidegate.coordinator"].clear()
        self.restart()

    def survive(self, action: Callable[[], object], died: Callable[[], object], most: int) -> None:
        outer, before = self.bus.records_left, self.bus.before_outcomes
        if self.faults and self.random.random() < 0.3:
            self.bus.records_left = self.random.randrange(most)
        else:
            self.bus.records_left = 10**9
        self.bus.before_outcomes = self.pause if died == self.nothing else self.nothing
        try:
            action()
        except Died:
            self.bus.records_left = 10**9
            died()
        finally:
            self.bus.records_left, self.bus.before_outcomes = outer, before

    def nothing(self) -> None:
        pass

    def pause(self) -> None:
        """A worker stalls while others go on, dies, or meets a fault of its store."""
        if not self.faults:
            return
        if self.depth < 2:
            self.depth += 1
            outer = self.bus.records_left, self.bus.before_outcomes
            self.bus.records_left, self.bus.before_outcomes = 10**9, self.nothing
            for choice in self.random.choice(MEANWHILE):
                self.act(choice)
            self.bus.records_left, self.bus.before_outcomes = outer
            self.depth -= 1
        if self.random.random() < 0.1:
            raise self.random.choice([Died(), OSError("full")])

    def work(self, record: Record) -> None:
        issued = Wire().deserialize(record.key, record.value, record.headers)
        assert isinstance(issued, TaskIssued)
        command = command_of(issued, Wire())

        def attempt() -> None:
            try:
                self.runner().attempt(Attempts(record, issued, command))
            except OSError as error:
                self.bus.before_outcomes = self.nothing
                self.given_up.append((issued, record))  # the dead letter is written first
                self.runner().publish_end(issued, record, error, command)
            self.processed.add(record.offset)

        self.survive(attempt, self.nothing, 3)

    def changed(self, command: Command) -> None:
        """The promises."""
        self.changes.append(command.event_id)
        outcomes = self.events("outcomes")
        if isinstance(command, CleaningReleased):
            asked = self.events("requests")
            kinds = [type(it) for it in asked]
            last = max(
                (at for at, it in enumerate(kinds) if it is CleaningHoldRemovalRequested),
                default=-1,
            )
            holds = {it.event_id for it in asked[last + 1 :]}
            confirmed = {it.caused_by for it in outcomes if isinstance(it, CleaningHeld)}
            assert not holds & confirmed, "a directory of a held table went"
            undone = {it.cleaning for it in outcomes if isinstance(it, CleaningUndone)}
            assert command.event_id not in undone, "what was undone is repeated"
        else:
            over = self.answered() - self.redriven
            assert command.event_id not in over, "what has its outcome is repeated"
        withdrawn = {it.request for it in outcomes if isinstance(it, RequestWithdrawn)}
        assert command.event_id not in withdrawn, "a withdrawn request changed the table"

    # What people and writers publish

    def vacuum(self) -> None:
        self.count += 1
        lock = self.count
        vacuum = VacuumFinished(
            table=TABLE,
            location=str(self.root / "t"),
            occurred_at=NOON,
            source="compactor",
            kind="minor",
            directories=(f"delta_{lock:07}_{lock:07}",),
            min_write_id=lock,
            max_write_id=lock,
            valid_write_ids="sales.orders:9:9223372036854775807::",
            own_lock_id=lock,
            locks=(LockHold(lock_id=lock),),
        )
        self.publish(vacuum, release(lock, TABLE))

    def restore(self, kind: str) -> RestoreRequested:
        return RestoreRequested.model_validate(
            self.fields(kind) | {"location": str(self.root / "t"), "savepoint": "20261121120000001"}
        )

    def decide(self, choice: str, request: Command) -> None:
        fields = {"request": request.event_id, "location": request.location}
        event: Command
        if choice == "withdraw":
            event = WithdrawalRequested.model_validate(self.fields("withdrawal") | fields)
        else:
            why = {"plan_id": "p", "approved_by": "ben"}
            about = self.fields("approval") | fields | why
            del about["requested_by"]
            event = RestoreApproved.model_validate(about)
        self.publish(event)

    def undo(self) -> None:
        outcomes = self.events("outcomes")
        if done := [it.caused_by for it in outcomes if isinstance(it, CleaningRefused)]:
            about = {"location": str(self.root / "t"), "cleaning": self.random.choice(done)}
            request = CleaningUndoRequested.model_validate(self.fields("undo") | about)
            self.publish(request)

    def answered(self) -> set[str]:
        """The requests that have their last outcome."""
        outcomes = self.events("outcomes")
        return {id_ for it in outcomes if isinstance(it, ENDS) for id_ in answered_by(it)}

    def redrive(self, issued: TaskIssued, record: Record) -> None:
        self.redriven.add(issued.caused_by)
        self.runner().publish_redriven(issued, record)

    def ask(self, kind: type[Command], name: str) -> None:
        self.publish(kind.model_validate(self.fields(name)))

    def forge(self) -> None:
        """What a stranger publishes."""

    def fields(self, name: str) -> dict[str, object]:
        self.count += 1
        why = {"requested_by": "ana", "reason": "an audit", "source": "ana"}
        return {"table": TABLE, "occurred_at": NOON, "event_id": f"{name}-{self.count}"} | why

    def unprocessed(self) -> list[Record]:
        tasks = self.bus.records("tidegate.tasks")
        return [record for record in tasks if record.offset not in self.processed]

    # The end

    def check_end(self) -> None:
        rows = self.loop._owned[0].store
        for kind in LEFT_OPEN:
            assert rows.all(f"select * from {kind}") == [], f"{kind} stands still"  # noqa: S608
        outcomes = self.events("outcomes")
        ended = {it.caused_by for it in outcomes if isinstance(it, TaskEnded)}
        tasks = [it for it in self.events("tasks") if isinstance(it, TaskIssued)]
        for task in tasks[self.issued_since :]:
            assert task.kind == StopRequested.__name__ or task.event_id in ended
        withdrawn = {it.request for it in outcomes if isinstance(it, RequestWithdrawn)}
        assert not withdrawn & set(self.changes), "a request was withdrawn that had begun"
        for cleaning in (it for it in tasks if it.kind == CleaningReleased.__name__):
            assert self.changes.count(cleaning.caused_by or "") > 1, "it was not resumed"
        for request in self.requests:
            is_plain = request.event_id.startswith("plain")
            assert not is_plain or request.event_id in self.answered() | set(self.changes)
        answered = {
            it.caused_by
            for it in outcomes
            if isinstance(it, RequestWithdrawn | WithdrawalRefused | CleaningHeld)
        }
        for asked in self.events("requests"):
            if isinstance(asked, WithdrawalRequested | CleaningHoldRequested):
                assert asked.event_id in answered


class Signed(History):
    """Signatures are required of all, and a stranger writes to every topic."""

    choices = (*CHOICES, *("forge",) * 6)
    of_coordinator = of_worker = Authorization([SERVICES, PEOPLE], "memory", required=True)

    def coordinator(self) -> CoordinatorLoop:
        sign = signer(COORDINATOR, lambda: "memory")
        trusting = self.of_coordinator
        return CoordinatorLoop(ReaderGate(), self.bus, sign=sign, authorization=trusting)

    def runner(self) -> CommandRunner:
        sign = signer(COORDINATOR, lambda: "memory")
        return replace(super().runner(), sign=sign, authorization=self.of_worker)

    def publish(self, *events: Event) -> None:
        self.bus.send([signed(event, ANA) for event in events])

    def forge(self) -> None:
        """An event that would free a cleaning, end it or do it again: unsigned or signed by EVE."""
        lifted = self.random.choice([True, False])
        tasks = [it for it in self.events("tasks") if isinstance(it, TaskIssued)]
        if lifted or not tasks:
            removal = CleaningHoldRemovalRequested.model_validate(self.fields("forged"))
            forged: list[Event] = [removal]
        else:
            forged = [ended(tasks[-1]), self.random.choice(tasks)]
            if isinstance(forged[1], TaskIssued):
                forged[1] = forged[1].model_copy(update={"number": forged[1].number + 1})
        for event in forged:
            event = event.model_copy(update={"source": STRANGER})  # noqa: PLW2901
            self.bus.send([message(event) if self.random.random() < 0.5 else signed(event, EVE)])


class _TrustsRequests(Authorization):
    def check(self, event: Event, record: Record) -> TrustedKey | None:
        return None if isinstance(event, Command) else super().check(event, record)


class CoordinatorTrustsRequests(Signed):
    """Leave out: the coordinator verifies the signatures of requests."""

    of_coordinator = _TrustsRequests([SERVICES, PEOPLE], "memory", required=True)


class CoordinatorTrustsOutcomes(Signed):
    """Leave out: the coordinator verifies the signatures of outcomes."""

    def coordinator(self) -> CoordinatorLoop:
        loop = super().coordinator()
        loop._signed_kinds.clear()
        return loop


class WorkerTrustsAll(Signed):
    """Leave out: the worker verifies signatures again."""

    of_worker = Authorization()


def run_histories(
    seeds: range, root: Path, patch: pytest.MonkeyPatch, kind: type[History] = History
) -> None:
    patch.setattr(task_numbers, "FRESH_SECONDS", -1.0)  # every call comes after a pause
    for seed in seeds:
        (root / str(seed)).mkdir()
        kind(root / str(seed), Random(seed)).run()  # noqa: S311 - a history, no secret


@pytest.mark.parametrize("part", range(4))
def test_confirmed_answers_stay_true_and_no_table_stands_still(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = range(part * HISTORIES // 4, (part + 1) * HISTORIES // 4)
    run_histories(seeds, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("rule", "promise"),
    [
        pytest.param(
            "partitions.CatchUp.is_rebuilding",
            "what has its outcome",
            id="the outcomes are read first",
        ),
        pytest.param("requests.Requests.is_over", "what was undone", id="an undone cleaning stays"),
        pytest.param(
            "running_tasks._is_unknown", "stands still", id="numbers continue above the table's"
        ),
    ],
)
def test_without_a_rule_a_lost_changelog_breaks_a_promise(
    rule: str, promise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tidegate.coordinator.{rule}", lambda *_: False)
    with pytest.raises(AssertionError, match=promise):
        run_histories(range(HISTORIES), tmp_path, monkeypatch)


def test_signed_histories_keep_their_promises_whatever_a_stranger_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_histories(range(HISTORIES // 2), tmp_path, monkeypatch, Signed)


@pytest.mark.parametrize(
    "kind", [CoordinatorTrustsRequests, CoordinatorTrustsOutcomes, WorkerTrustsAll]
)
def test_where_signatures_are_not_verified_a_stranger_breaks_a_promise(
    kind: type[History], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match=r"of a held table|is repeated|not resumed|stands"):
        run_histories(range(3 * HISTORIES), tmp_path, monkeypatch, kind)
