"""A writer condemns a commit: by the settings nothing, a plan, or a restore to be approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from support.hudi_tables import at as instant_at
from support.hudi_tables import four_commits, savepoint_request, tables_own, ticking, warehouse_over
from support.memory_bus import MemoryBus
from support.policies import every_commit
from support.samples import memory_bus, message, outcomes_on
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    CommitCondemned,
    CommitFlagged,
    Event,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreDeclined,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    SavepointCreated,
    SavepointsChecked,
    SavepointsCheckRequested,
)
from tidegate.events.fields import to_ms
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.restores.settings import RestoreRule, RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.rules import SavepointRule
from tidegate.service.assembly import assemble
from tidegate.service.settings import Settings

AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
TABLE = {"table": "lake.sales.orders", "location": "/lake/orders", "occurred_at": AT}
FIRST, BAD, LATER = "20260301100000000", "20260301100200000", "20260301100300000"


@dataclass
class Coordinator:
    """The subject with its rows."""

    action: Literal["nothing", "plan", "restore"]
    policy: tuple[SavepointRule, ...] = ()
    rows: Store = field(default_factory=lambda: Store(SavepointSubject.row_types))

    @property
    def subject(self) -> SavepointSubject:
        rule = RestoreRule.model_construct(tables="lake.SALES.*", condemned=self.action)
        return SavepointSubject(self.policy, RestoreSettings.model_construct(rules=(rule,)))

    def take(self, event: Event, at: datetime = AT) -> list[Event]:
        effects = self.subject.handle(event, self.rows, at)
        return [*effects.commands, *effects.outcomes]

    def condemn(self, *there: str) -> list[Event]:
        """Condemn a commit of a table with these savepoints; what follows from the check."""
        (check,) = self.take(condemned())
        assert isinstance(check, SavepointsCheckRequested)
        return self.take(checked(check, *there))


def committed(instant: str) -> CommitCompleted:
    fields = TABLE | {"source": "ingest", "instant": instant, "action": "commit"}
    return CommitCompleted.model_validate(fields)


def condemned(instant: str = BAD, **more: object) -> CommitCondemned:
    fields = TABLE | {"source": "ingest", "instant": instant, "reason": "doubled"} | more
    return CommitCondemned.model_validate(fields)


def checked(check: SavepointsCheckRequested, *there: str, **more: object) -> SavepointsChecked:
    """The outcome of a check of a table with these savepoints."""
    bad = check.condemned or ""
    fields: dict[str, object] = {
        "savepoints": len(there),
        "condemned": check.condemned,
        "newest_before": max((at for at in there if at < bad), default=None),
        "later": [at for at in there if bad and at >= bad],
        "duration_ms": 1,
    }
    given = {"source": "savepoint-writer", "occurred_at": AT}
    return SavepointsChecked.about(check, **given, **(fields | more))


def created(**more: object) -> SavepointCreated:
    """A savepoint that a person gave a lifetime."""
    fields = TABLE | {"source": "savepoint-writer", "caused_by": "r-1", "instant": FIRST}
    counts = {"partitions": 1, "files": 1, "duration_ms": 1, "lifetime_seconds": 60}
    return SavepointCreated.model_validate(fields | counts | more)


def rejected(request: Event) -> RestoreRejected:
    fields = {"savepoint": FIRST, "reason": "writer-active", "message": "no"}
    return RestoreRejected.about(request, source="restorer", occurred_at=AT, **fields)


def failed(request: Event) -> RestoreFailed:
    fields = {"savepoint": FIRST, "restore_instant": LATER, "message": "disk full"}
    return RestoreFailed.about(request, source="restorer", occurred_at=AT, **fields)


def test_every_check_names_the_published_commits_until_one_has_looked_them_up() -> None:
    made = Coordinator("nothing", (every_commit("lake.*"),))

    (first,) = made.take(committed(FIRST))
    (second,) = made.take(committed(LATER))
    assert isinstance(first, SavepointsCheckRequested)
    assert isinstance(second, SavepointsCheckRequested)
    made.take(checked(first, commits=first.commits))
    (third,) = made.take(committed(BAD))

    assert isinstance(third, SavepointsCheckRequested)
    assert (first.commits, second.commits) == ((FIRST,), (FIRST, LATER))
    assert third.commits == (LATER, BAD)


def test_a_plan_is_requested_to_the_newest_savepoint_before_it() -> None:
    made = Coordinator("plan")

    (request,) = made.condemn("20260301090000000", FIRST)

    assert isinstance(request, RestoreRequested)
    assert (request.savepoint, request.plan_only, request.needs_approval) == (FIRST, True, False)
    assert request.requested_by == "ingest"
    assert request.reason == f"commit {BAD} was condemned by ingest: doubled"
    assert request.location == "/lake/orders"


def test_a_restore_is_requested_that_needs_an_approval_and_covers_what_was_published() -> None:
    made = Coordinator("restore")
    for instant in (FIRST, BAD, LATER):
        made.take(committed(instant))

    (request,) = made.condemn(FIRST)

    assert isinstance(request, RestoreRequested)
    assert (request.plan_only, request.needs_approval) == (False, True)
    assert request.seen_up_to == LATER


def test_nothing_follows_by_default() -> None:
    made = Coordinator("nothing")

    assert made.take(condemned()) == []
    assert SavepointSubject().handle(condemned(), made.rows, AT).commands == []


def test_without_a_savepoint_before_it_an_outcome_says_so() -> None:
    (flagged,) = Coordinator("restore").condemn(BAD)

    assert isinstance(flagged, CommitFlagged)
    assert (flagged.flag, flagged.instant) == ("no-savepoint-before", BAD)


@pytest.mark.parametrize("there", [BAD, LATER], ids=["its own", "of a later commit"])
def test_a_savepoint_after_the_bad_commit_is_named_and_what_to_do(there: str) -> None:
    made = Coordinator("restore")

    (flagged,) = made.condemn(FIRST, there)

    assert isinstance(flagged, CommitFlagged)
    assert flagged.flag == "savepoint-after"
    assert there in flagged.message
    assert "savepoint-removal" in flagged.message
    # once it is removed, condemning again acts
    assert isinstance(made.condemn(FIRST)[0], RestoreRequested)


@pytest.mark.parametrize("ended", [rejected, failed], ids=["refused", "failed"])
def test_a_commit_is_answered_once_and_again_when_the_restore_came_to_nothing(
    ended: Callable[[Event], Event],
) -> None:
    made = Coordinator("restore")
    (request,) = made.condemn(FIRST)
    assert made.take(condemned(reason="other words", source="bridge")) == []

    made.take(ended(request))
    (again,) = made.condemn(FIRST)

    assert isinstance(again, RestoreRequested)
    assert again.event_id != request.event_id


def test_an_instant_of_the_future_is_refused_and_widens_nothing() -> None:
    made = Coordinator("restore")
    made.take(committed(LATER))
    made.take(committed("20991231000000000"))

    with pytest.raises(FormatError):
        made.take(condemned("20991231000000000"))
    (request,) = made.condemn(FIRST)
    assert isinstance(request, RestoreRequested)
    assert request.seen_up_to == LATER


def waiting(until: datetime | None) -> RestoreAwaitingApproval:
    fields = TABLE | {"source": "restorer", "caused_by": "r-1", "savepoint": FIRST}
    plan = {"plan_id": "p", "instants": (), "files": 0, "bytes": 0, "expires_at": until}
    return RestoreAwaitingApproval.model_validate(fields | plan)


def wanted_at(made: Coordinator, at: datetime) -> tuple[str, ...]:
    """The savepoints that a check at this time has to leave."""
    (check,) = made.take(committed(LATER), at)
    assert isinstance(check, SavepointsCheckRequested)
    return check.wanted


@pytest.mark.parametrize(
    ("until", "last"),
    [
        pytest.param(timedelta(days=7), timedelta(days=7), id="a week"),
        pytest.param(timedelta(days=9_000), timedelta(days=21), id="a forged time"),
    ],
)
def test_a_savepoint_stays_while_a_restore_to_it_waits_for_its_approval(
    until: timedelta, last: timedelta
) -> None:
    made = Coordinator("nothing", (every_commit("lake.*"),))
    made.take(committed(FIRST))

    made.take(waiting(AT + until))

    assert made.subject.next_due(made.rows) == to_ms(AT + last)
    assert wanted_at(made, AT + last - timedelta(seconds=1)) == (FIRST,)
    assert wanted_at(made, AT + last) == ()


def test_a_savepoint_that_a_person_is_about_to_restore_to_stays_for_a_day() -> None:
    made = Coordinator("nothing", (every_commit("lake.*"),))
    (check,) = made.take(committed(FIRST))

    made.take(rejected(check))

    assert wanted_at(made, AT + timedelta(hours=23)) == (FIRST,)
    assert wanted_at(made, AT + timedelta(hours=24)) == ()


def test_a_table_is_checked_after_a_commit_and_at_the_time_that_the_last_check_named() -> None:
    made = Coordinator("nothing", (every_commit("lake.*"),))
    (first,) = made.take(committed(FIRST))
    assert isinstance(first, SavepointsCheckRequested)
    assert (first.measure, made.subject.next_due(made.rows)) == (True, None)

    made.take(checked(first, next_check=AT + timedelta(hours=5), pinned_files=0, pinned_bytes=0))
    assert made.subject.next_due(made.rows) == to_ms(AT + timedelta(hours=5))
    (second,) = made.subject.due(made.rows, AT + timedelta(hours=5)).commands

    assert isinstance(second, SavepointsCheckRequested)
    assert second.measure is False
    assert len({first.event_id, second.event_id}) == 2
    assert made.subject.next_due(made.rows) is None
    # a writer whose clock is behind is not asked again at once
    made.take(checked(second, next_check=AT - timedelta(days=9)))
    assert made.subject.next_due(made.rows) == to_ms(AT + timedelta(minutes=1))


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(committed(FIRST).model_copy(update={"table": "lake.hr.staff"}), id="no rule"),
        pytest.param(committed(FIRST).model_copy(update={"action": "clean"}), id="a clean"),
        pytest.param(created(lifetime_seconds=None), id="a person's without an end"),
        pytest.param(created(policy="p", tiers=("daily",)), id="a policy's"),
    ],
)
def test_other_events_lead_to_no_check(event: Event) -> None:
    rule = every_commit("lake.sales.*")

    assert Coordinator("nothing", (rule,)).take(event) == []


def test_a_lifetime_given_by_a_person_counts_where_no_policy_applies() -> None:
    (check,) = Coordinator("nothing").take(created())

    assert isinstance(check, SavepointsCheckRequested)


def test_an_outcome_whose_location_no_check_can_name_is_at_fault() -> None:
    with pytest.raises(FormatError, match="location"):
        Coordinator("nothing").take(created(location="a/b"))


def test_a_restore_without_approval_is_not_an_answer_to_a_condemned_commit() -> None:
    rule = {"tables": "*", "approval": False, "condemned": "restore"}
    with pytest.raises(ValidationError, match="needs approval = true"):
        Settings.model_validate({"restores": {"rules": [rule]}})


class Lake:
    """The policy and the two Hudi executors on a bus in memory, over a table with a savepoint."""

    def __init__(self, root: Path, action: str, *, approval: bool = True) -> None:
        self.root = root
        self.table = four_commits(root / "orders", 9)
        writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
        list(writer.execute(savepoint_request(self.table, instant_at(2))))
        self.bus: MemoryBus = memory_bus()
        rule = {"locations": [str(root)], "approval": approval, "condemned": action}
        self.settings = Settings.model_validate(
            {"warehouse": {"roots": [str(root)]}, "restores": {"watch_seconds": 0, "rules": [rule]}}
        )

    def run(self, *sent: Event, names: tuple[str, ...] = ()) -> list[Event]:
        self.bus.send([message(event) for event in sent])
        services = names or ("coordinator", "savepoint-writer", "restorer")
        loops = [assemble(name, self.settings, self.bus) for name in services]
        rests = 0
        while rests < 3:
            busy = [loop.step(0.001) for loop in loops]  # type: ignore[attr-defined]
            pending = any(getattr(loop, "pending", False) for loop in loops)
            rests = 0 if pending or any(busy) else rests + 1
        for loop in loops:
            loop.close()
        assert self.bus.records("tidegate.dead-letters") == []
        return outcomes_on(self.bus)

    def event(self, kind: type[Event], **more: Any) -> Event:  # noqa: ANN401
        subject = TABLE | {"location": str(self.root / "orders"), "source": "ingest"}
        return kind.model_validate(subject | more)

    def condemn(self) -> list[Event]:
        commits = [
            self.event(CommitCompleted, instant=instant_at(n), action="commit") for n in (3, 4)
        ]
        self.run(*commits)
        return self.run(self.event(CommitCondemned, instant=instant_at(3), reason="doubled"))


def test_a_condemned_commit_gives_a_plan_and_changes_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "plan")
    before = tables_own(tmp_path)
    found = lake.condemn()

    (planned,) = [event for event in found if isinstance(event, RestorePlanned)]
    assert [instant.instant for instant in planned.instants] == [instant_at(4), instant_at(3)]
    assert tables_own(tmp_path) == before
    # read again, nothing is published again
    published = [lake.bus.records(f"tidegate.{topic}") for topic in ("tasks", "outcomes")]
    condemned_again = lake.event(CommitCondemned, instant=instant_at(3), reason="doubled")
    lake.run(condemned_again)
    assert [lake.bus.records(f"tidegate.{topic}") for topic in ("tasks", "outcomes")] == published


@pytest.mark.parametrize("action", ["plan", "restore"])
@pytest.mark.parametrize("undone", [False, True], ids=["unknown", "older than a rollback"])
def test_a_commit_that_is_not_on_the_timeline_leads_to_a_flag_and_to_no_request(
    tmp_path: Path, action: str, *, undone: bool
) -> None:
    lake = Lake(tmp_path, action)
    if undone:
        completed = InstantState.COMPLETED
        lake.table.put(Instant(instant_at(8), Action.ROLLBACK, completed, instant_at(8)))
    lake.condemn()
    before = len(outcomes_on(lake.bus))
    wrong = instant_at(3)[:-1] + "4"

    found = lake.run(lake.event(CommitCondemned, instant=wrong, reason="doubled"))[before:]

    (flagged,) = [event for event in found if isinstance(event, CommitFlagged)]
    assert (flagged.flag, flagged.instant) == ("not-on-timeline", wrong)
    assert not [e for e in found if isinstance(e, RestorePlanned | RestoreAwaitingApproval)]


def test_an_archived_commit_that_is_condemned_is_not_taken_for_a_missing_one(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path, "plan")

    found = lake.run(lake.event(CommitCondemned, instant=instant_at(0), reason="doubled"))

    assert [e.flag for e in found if isinstance(e, CommitFlagged)] == ["no-savepoint-before"]


def test_a_condemned_commit_is_restored_once_a_person_approves(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "restore")
    before = tables_own(tmp_path)
    found = lake.condemn()

    (waits,) = [event for event in found if isinstance(event, RestoreAwaitingApproval)]
    assert waits.requested_by == "ingest"
    assert tables_own(tmp_path) == before

    def approval(event_id: str) -> Event:
        return lake.event(
            RestoreApproved,
            event_id=event_id,
            caused_by=waits.caused_by,
            request=waits.caused_by,
            plan_id=waits.plan_id,
            approved_by="ben",
            reason="looked at it",
        )

    kinds = [type(event).__name__ for event in lake.run(approval("a-1"))]
    assert kinds[-2:] == ["RestoreStarted", "RestoreCompleted"]
    *_, refused = lake.run(approval("a-2"))
    assert getattr(refused, "reason", None) == "not-awaiting"


def test_a_commit_whose_restore_was_declined_can_be_condemned_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "restore")
    waits = lake.condemn()[-1]
    assert isinstance(waits, RestoreAwaitingApproval)
    about = {"request": waits.caused_by, "requested_by": "ben", "reason": "not today"}
    lake.run(lake.event(RestoreDeclined, event_id="d-1", **about))

    again = lake.run(lake.event(CommitCondemned, instant=instant_at(3), reason="still doubled"))

    assert isinstance(again[-1], RestoreAwaitingApproval)
    assert again[-1].caused_by != waits.caused_by


def test_a_request_that_needs_an_approval_is_refused_by_a_restorer_that_knows_of_none(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path, "nothing", approval=False)
    request = RestoreRequested.model_validate(
        TABLE
        | {
            "event_id": "r-1",
            "location": str(tmp_path / "orders"),
            "source": "coordinator",
            "savepoint": instant_at(2),
            "requested_by": "ingest",
            "reason": "condemned",
            "seen_up_to": "99991231235959999",
            "needs_approval": True,
        }
    )
    before = tables_own(tmp_path)

    (refused,) = lake.run(request, names=("coordinator", "restorer"))

    assert getattr(refused, "reason", None) == "approval-not-configured"
    assert tables_own(tmp_path) == before
