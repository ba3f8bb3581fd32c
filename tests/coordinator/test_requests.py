"""People's requests become tasks as they were published; a restore may need an approval first."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from support import deployment_events
from support.deployment_events import withdrawal
from support.policies import policy_rule
from support.samples import (
    NOON,
    commands_on,
    commit,
    ended,
    events_on,
    memory_bus,
    message,
    savepoint_request,
)
from support.samples import tasks_on as tasks_of
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.coordinator.subject import Subjects
from tidegate.events import (
    Event,
    RequestWithdrawn,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreCompleted,
    RestoreDeclined,
    RestoreRejected,
    RestoreRequested,
    SavepointRejected,
    SavepointsCheckRequested,
    Stopped,
    StopRequested,
    TaskEnd,
    Withdrawal,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.publisher import Message
from tidegate.runtime.bus import Record
from tidegate.savepoints.rules import Tier, TierRule

TABLE = "lake.sales.orders"
SAVEPOINT = "20261121120000001"


class Place:
    """A coordinator on a bus of one partition; `restart` is a successor."""

    def __init__(self) -> None:
        self.bus = memory_bus(partitions=1)
        self.loop = self._loop()

    @staticmethod
    def _loop_of(bus: Any) -> CoordinatorLoop:  # noqa: ANN401 - a bus in memory
        every = TierRule(tier=Tier.EVERY_COMMIT, keep=5)
        policy = (policy_rule(every, name="all"),)
        return CoordinatorLoop(Subjects(ReaderGate(), SavepointSubject(policy)), bus)

    def _loop(self) -> CoordinatorLoop:
        return self._loop_of(self.bus)

    def send(self, *sent: Event | Message) -> None:
        """Publish one by one, and let the coordinator decide on each."""
        for item in sent:
            self.bus.send([item if isinstance(item, Message) else message(item)])
            self.run()

    def run(self) -> None:
        while self.loop.step(0):
            pass

    def restart(self) -> None:
        self.loop.close()
        self.loop = self._loop()
        self.run()

    def decide_due(self) -> None:
        self.loop._next_tick = 0.0
        self.run()

    def end(self, **how: object) -> None:
        """The worker ends the newest task."""
        self.send(ended(tasks_of(self.bus)[-1], source="restorer", **how))

    def outcomes(self, kind: type[Event]) -> list[Any]:
        return [it for it in events_on(self.bus, "tidegate.outcomes") if isinstance(it, kind)]


@pytest.fixture
def place() -> Place:
    return Place()


def restore(name: str = "r-1", **more: object) -> RestoreRequested:
    fields: dict[str, object] = {
        "event_id": name,
        "table": TABLE,
        "location": "/lake/orders",
        "occurred_at": NOON,
        "source": "cli",
        "savepoint": SAVEPOINT,
        "requested_by": "ana",
        "reason": "a bad load",
        "seen_up_to": "20261121130000000",
    }
    return RestoreRequested.model_validate(fields | more)


def approval(of: RestoreRequested, name: str = "a-1") -> RestoreApproved:
    return RestoreApproved.about(
        of,
        event_id=name,
        occurred_at=NOON,
        source="cli",
        request=of.event_id,
        plan_id="p",
        approved_by="ben",
        reason="looked at it",
    )


awaiting = partial(deployment_events.awaiting, until=NOON + timedelta(days=10_000))


def refused_by_its_worker(of: RestoreApproved) -> RestoreApprovalRejected:
    return RestoreApprovalRejected.about(
        of,
        occurred_at=NOON,
        source="restorer",
        request=of.request,
        reason="plan-changed",
        message="another plan",
    )


def completed(of: RestoreRequested, **more: object) -> RestoreCompleted:
    fields: dict[str, object] = {
        "occurred_at": NOON,
        "source": "restorer",
        "savepoint": SAVEPOINT,
        "restore_instant": "20261121130000000",
        "instants": (),
        "files_deleted": 0,
        "duration_ms": 1,
    }
    return RestoreCompleted.about(of, **fields | more)


def awaited(place: Place) -> RestoreRequested:
    """A restore whose worker said that it needs an approval."""
    request = restore()
    place.send(request, awaiting(request))
    place.end()
    return request


def test_a_request_is_carried_as_it_was_published(place: Place) -> None:
    published = message(restore())
    place.send(published)

    [task] = tasks_of(place.bus)
    assert task.command.topic == published.topic == "tidegate.requests"
    assert task.command.value == published.value
    assert task.grounds == ()


def test_two_restores_requested_at_once_are_one_after_the_other(place: Place) -> None:
    place.send(restore("r-1"), restore("r-2"))
    assert [command.event_id for command in commands_on(place.bus)] == ["r-1"]
    place.restart()
    place.end()

    assert [command.event_id for command in commands_on(place.bus)] == ["r-1", "r-2"]


def test_the_same_bytes_again_restore_nothing(place: Place) -> None:
    place.send(restore())
    place.end()
    place.send(restore())
    place.restart()
    place.send(restore())

    assert len(tasks_of(place.bus)) == 1


def test_an_approved_restore_comes_again_with_its_approval(place: Place) -> None:
    request = awaited(place)
    place.restart()
    published = message(approval(request))
    place.send(published)

    first, second = tasks_of(place.bus)
    assert (second.number, second.caused_by) == (first.number + 1, request.event_id)
    assert second.command == first.command
    [ground] = second.grounds
    assert (ground.topic, ground.value) == ("tidegate.requests", published.value)


def test_a_second_approval_is_refused_until_the_worker_refused_the_first(place: Place) -> None:
    request = awaited(place)
    place.send(approval(request), approval(request, "a-2"))
    [refused] = place.outcomes(RestoreApprovalRejected)
    assert (refused.caused_by, refused.reason) == ("a-2", "not-awaiting")

    place.send(refused_by_its_worker(approval(request)))
    place.end()
    place.send(approval(request, "a-3"))

    assert len(tasks_of(place.bus)) == 3
    [ground] = tasks_of(place.bus)[-1].grounds
    assert ground.value == message(approval(request, "a-3")).value


def test_an_approved_restore_that_becomes_a_dead_letter_leaves_no_row_but_its_own(
    place: Place,
) -> None:
    """Its dead letter may be discarded, which the coordinator does not see."""
    request = awaited(place)
    place.send(approval(request))
    approved = tasks_of(place.bus)[-1]
    place.end(end=TaskEnd.DEAD_LETTERED, message="half way")
    assert place.loop._owned[0].store.all("select * from awaiting") == []

    place.restart()
    place.send(ended(approved, end=TaskEnd.REDRIVEN))
    again = tasks_of(place.bus)[-1]
    assert (again.number, again.grounds) == (approved.number + 1, approved.grounds)
    place.send(refused_by_its_worker(approval(request)))
    place.end()
    place.decide_due()
    assert ends(place) == [("RestoreRejected", "r-1", "approval-expired")]
    assert place.loop._owned[0].store.all("select * from awaiting") == []


def test_a_restore_that_is_done_takes_no_further_approval(place: Place) -> None:
    request = awaited(place)
    place.send(approval(request))
    done = completed(request, approval="a-1", approved_by="ben")
    place.send(done)
    place.end()
    place.restart()
    assert place.loop._owned[0].store.all("select * from awaiting") == []  # nothing piles up
    place.send(approval(request, "a-2"))

    assert len(tasks_of(place.bus)) == 2
    [refused] = place.outcomes(RestoreApprovalRejected)
    assert refused.reason == "not-awaiting"


def test_an_approved_restore_does_not_wait_again_when_its_worker_repeats_that_it_needs_one(
    place: Place,
) -> None:
    """The worker died before it published the end of its task, and was approved meanwhile."""
    request = restore()
    place.send(request, awaiting(request), approval(request), awaiting(request))
    place.end()
    place.send(completed(request, approval="a-1"))
    place.end()

    place.send(approval(request, "a-2"), withdrawal(request))
    assert [it.reason for it in place.outcomes(RestoreApprovalRejected)] == ["not-awaiting"]
    assert ends(place) == TOO_LATE
    assert len(tasks_of(place.bus)) == 2


def test_a_second_approval_stays_when_the_worker_repeats_that_it_refused_the_first(
    place: Place,
) -> None:
    request = awaited(place)
    refused = refused_by_its_worker(approval(request))
    place.send(approval(request), refused, approval(request, "a-2"), refused)
    place.end()
    place.send(completed(request, approval="a-2"))
    place.end()

    assert place.loop._owned[0].store.all("select * from awaiting") == []


def test_a_third_approval_counts_when_the_second_came_before_the_end_of_the_refused_task(
    place: Place,
) -> None:
    """Else the restore would wait for good: no approval is taken, and it never expires."""
    request = awaited(place)
    first, second = approval(request), approval(request, "a-2")
    place.send(first, refused_by_its_worker(first), second)
    place.end()
    place.send(refused_by_its_worker(second))
    place.end()
    place.send(approval(request, "a-3"))

    assert place.outcomes(RestoreApprovalRejected)[-1].caused_by == "a-2"
    [ground] = tasks_of(place.bus)[-1].grounds
    assert ground.value == message(approval(request, "a-3")).value


def test_a_forged_outcome_makes_no_restore_wait_for_an_approval(place: Place) -> None:
    request = restore()
    place.send(request)
    place.end(end=TaskEnd.ANSWERED)
    place.send(awaiting(request), approval(request))

    assert len(tasks_of(place.bus)) == 1
    [refused] = place.outcomes(RestoreApprovalRejected)
    assert refused.reason == "not-awaiting"


def test_of_the_checks_of_a_table_that_wait_only_the_newest_is_carried_out(place: Place) -> None:
    """Else a person's restore would wait for the check of each commit of an outage."""
    place.send(restore("r-1"), *(commit(number) for number in range(100)), restore("r-2"))
    place.end()
    place.end()

    kinds = [type(command) for command in commands_on(place.bus)]
    assert kinds == [RestoreRequested, SavepointsCheckRequested, RestoreRequested]
    checked = commands_on(place.bus)[1]
    assert isinstance(checked, SavepointsCheckRequested)
    assert (checked.caused_by, checked.measure) == (commit(99).event_id, True)


def test_a_request_that_no_task_can_carry_is_set_aside_and_the_next_goes_on(place: Place) -> None:
    """A task carries its headers, too: they must not stop the coordinator."""
    plain = message(restore("large"))
    large = plain._replace(headers=(*plain.headers, ("note", b"x" * 31_000)))
    place.bus.max_message_bytes = lambda topic: 61_000  # type: ignore[method-assign]  # noqa: ARG005
    place.send(large, restore())

    [dead] = place.bus.records("tidegate.dead-letters")
    assert b"Message size too large" in (dict(dead.headers)["x-exception-message"] or b"")
    assert [command.event_id for command in commands_on(place.bus)] == ["r-1"]


@pytest.mark.parametrize("headers", [(("note", b"x"),) * 100, (("", b"x"),)])
def test_a_request_with_headers_that_no_task_can_carry_does_not_wait_for_its_turn(
    place: Place, headers: tuple[tuple[str, bytes], ...]
) -> None:
    """The end of the task before it would fail with it, so the table would stand still."""
    plain = message(restore("r-2"))
    place.send(restore("r-1"), plain._replace(headers=(*plain.headers, *headers)))
    assert len(place.bus.records("tidegate.dead-letters")) == 1
    place.end()
    place.send(restore("r-3"))

    assert [command.event_id for command in commands_on(place.bus)] == ["r-1", "r-3"]
    assert len(place.bus.records("tidegate.dead-letters")) == 1


def test_a_restore_of_a_very_long_location_leaves_room_for_its_approval(place: Place) -> None:
    """A task has its location several times."""
    deep = restore(location=f"/{'潮' * 3_999}")
    plain = message(deep)
    limit, approved = 200_000, message(approval(deep))
    room = limit - sum(map(size, (plain, approved)))
    filled = plain._replace(headers=(*plain.headers, ("note", b"x" * (room // 2 - 3_000))))
    also = approved._replace(headers=(*approved.headers, ("note", b"x" * (room // 2 - 3_000))))
    place.bus.max_message_bytes = lambda topic: limit  # type: ignore[method-assign]  # noqa: ARG005
    place.send(filled, awaiting(deep))
    if tasks_of(place.bus):
        place.end()
    place.send(also)

    assert max(map(size, place.bus.records("tidegate.tasks")), default=0) <= limit
    assert place.bus.records("tidegate.dead-letters") != []

    place.send(restore("r-2", location=deep.location))
    assert [command.event_id for command in commands_on(place.bus)] == ["r-2"]


def size(sent: Message | Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in sent.headers)
    return len(sent.key or b"") + len(sent.value or b"") + headers


def ends(place: Place) -> list[tuple[str, str | None, str | None]]:
    """What became of restores, and the answers to withdrawals."""
    kinds = (RestoreRejected, SavepointRejected, RequestWithdrawn, WithdrawalRefused)
    return [
        (type(it).__name__, it.caused_by, getattr(it, "reason", None))
        for it in events_on(place.bus, "tidegate.outcomes")
        if isinstance(it, kinds)
    ]


WITHDRAWN = [("RestoreRejected", "r-1", "withdrawn"), ("RequestWithdrawn", "w-r-1", None)]
DECLINED = [("RestoreRejected", "r-1", "declined"), ("RequestWithdrawn", "w-r-1", None)]
TOO_LATE = [("WithdrawalRefused", "w-r-1", "too-late")]


@pytest.mark.parametrize(
    ("kind", "expected"), [(WithdrawalRequested, WITHDRAWN), (RestoreDeclined, DECLINED)]
)
def test_a_request_that_waits_for_its_turn_or_an_approval_is_withdrawn_at_once(
    place: Place, kind: type[Withdrawal], expected: list[tuple[str, str, str | None]]
) -> None:
    request = awaited(place)
    place.send(restore("other"), withdrawal(request, kind))
    assert ends(place) == expected
    place.restart()
    place.send(approval(request))
    [refused] = place.outcomes(RestoreApprovalRejected)
    assert refused.reason == "not-awaiting"
    assert len(tasks_of(place.bus)) == 2

    queued = Place()
    queued.send(restore("first"), restore(), withdrawal(restore(), kind))
    queued.end()
    assert ends(queued) == expected
    assert [command.event_id for command in commands_on(queued.bus)] == ["first"]


def test_an_approved_restore_that_is_queued_is_withdrawn_with_its_approval(place: Place) -> None:
    request = awaited(place)
    place.send(restore("other"), approval(request), withdrawal(request))
    place.end()

    assert ends(place) == WITHDRAWN
    assert [command.event_id for command in commands_on(place.bus)] == ["r-1", "other"]
    assert place.loop._owned[0].store.all("select * from awaiting") == []


def test_a_request_under_way_is_stopped_and_is_withdrawn_if_it_had_not_begun(place: Place) -> None:
    place.send(restore(), withdrawal(restore()))
    place.restart()
    assert ends(place) == []
    place.end(stopped=Stopped.NOT_BEGUN)
    place.send(restore("next"))

    assert ends(place) == WITHDRAWN
    kinds = [task.kind for task in tasks_of(place.bus)]
    assert kinds == ["RestoreRequested", "StopRequested", "RestoreRequested"]
    assert tasks_of(place.bus)[-1].caused_by == "next"


def test_a_request_that_has_begun_goes_on_under_a_new_number_before_all_others(
    place: Place,
) -> None:
    place.send(restore(), restore("next"), withdrawal(restore()))
    place.end(stopped=Stopped.BEGUN)

    assert ends(place) == TOO_LATE
    first, _, again = tasks_of(place.bus)
    assert (again.number, again.command) == (3, first.command)


def test_a_request_that_is_done_or_ends_before_its_stop_can_not_be_withdrawn(place: Place) -> None:
    place.send(restore(), withdrawal(restore()))
    task, _ = tasks_of(place.bus)
    place.send(ended(task))
    place.send(withdrawal(restore(), event_id="again"))

    assert ends(place) == [*TOO_LATE, ("WithdrawalRefused", "again", "too-late")]


def test_a_withdrawal_during_the_plan_ends_the_restore_that_then_waits_for_its_approval(
    place: Place,
) -> None:
    request = restore()
    place.send(request, withdrawal(request))
    place.send(awaiting(request), ended(tasks_of(place.bus)[0], source="restorer"))

    assert ends(place) == WITHDRAWN
    assert place.loop._owned[0].store.all("select * from awaiting") == []


def test_a_request_that_has_begun_once_is_not_withdrawn_before_its_next_task_claims_the_table(
    place: Place,
) -> None:
    """The stop of the next task found nothing of it on the table, and half a request stayed."""
    place.send(restore(), withdrawal(restore()))
    place.end(stopped=Stopped.BEGUN)
    place.restart()
    place.send(withdrawal(restore(), event_id="again"))

    assert ends(place) == [*TOO_LATE, ("WithdrawalRefused", "again", "too-late")]
    assert [task.number for task in tasks_of(place.bus)] == [1, 2, 3]


def test_a_request_whose_task_was_a_dead_letter_may_have_begun(place: Place) -> None:
    place.send(restore(), restore("next"))
    [first] = tasks_of(place.bus)
    place.send(ended(first, end=TaskEnd.DEAD_LETTERED, message="half way"))
    place.send(withdrawal(restore()))
    [refused] = place.outcomes(WithdrawalRefused)
    assert "discard its dead letter" in refused.message
    place.send(ended(first, end=TaskEnd.REDRIVEN), withdrawal(restore(), event_id="queued"))
    place.end()

    assert ends(place) == [*TOO_LATE, ("WithdrawalRefused", "queued", "too-late")]
    assert tasks_of(place.bus)[-1].caused_by == "r-1"


def test_a_withdrawn_request_stays_so_when_its_dead_letter_is_redriven(place: Place) -> None:
    request = restore()
    place.send(request, awaiting(request))
    [task] = tasks_of(place.bus)
    place.send(ended(task, end=TaskEnd.DEAD_LETTERED, message="its end could not be published"))
    place.send(withdrawal(request), ended(task, end=TaskEnd.REDRIVEN))

    assert ends(place) == WITHDRAWN
    assert tasks_of(place.bus) == [task]


def test_a_restore_that_was_approved_and_done_can_not_be_withdrawn(place: Place) -> None:
    """A worker that died before it committed the first task publishes its outcomes again."""
    request = awaited(place)
    place.send(approval(request), awaiting(request))
    place.end()
    place.send(withdrawal(request))

    assert ends(place) == TOO_LATE
    assert place.loop._owned[0].store.all("select * from awaiting") == []


def test_a_withdrawal_is_answered_at_once_when_the_task_had_no_number(place: Place) -> None:
    place.send(restore(), withdrawal(restore()))
    place.send(ended(tasks_of(place.bus)[0], end=TaskEnd.NUMBER_TAKEN, highest=1))

    assert ends(place) == WITHDRAWN
    assert [task.number for task in tasks_of(place.bus)] == [1, 2]
    assert place.loop._owned[0].store.all("select * from stopping") == []


@pytest.mark.parametrize("claimed", [b"com.example.CleaningReleased", b"", None])
def test_a_stop_goes_to_the_worker_of_the_request_whatever_its_headers_say(
    place: Place, claimed: bytes | None
) -> None:
    """The cleaner would say that the restore has not begun, while the restorer carries it out."""
    published = message(restore())
    headers = dict(published.headers) | {"ce_type": claimed}
    if claimed is None:
        del headers["ce_type"]
    place.send(published._replace(headers=tuple(headers.items())), withdrawal(restore()))

    stop = commands_on(place.bus)[-1]
    assert isinstance(stop, StopRequested)
    assert stop.kind == "RestoreRequested"


def test_two_withdrawals_of_one_request_are_both_answered(place: Place) -> None:
    place.send(restore(), withdrawal(restore()), withdrawal(restore(), event_id="second"))
    place.end(stopped=Stopped.NOT_BEGUN)

    assert ends(place) == [*WITHDRAWN, ("WithdrawalRefused", "second", "too-late")]


def test_a_withdrawal_of_nothing_or_of_another_table_is_refused(place: Place) -> None:
    place.send(restore("first"), restore())
    elsewhere = withdrawal(restore(), location="/lake/other", event_id="w-2")
    savepoint = savepoint_request(1)
    place.send(elsewhere, withdrawal(restore("never")), savepoint)
    place.send(withdrawal(savepoint, RestoreDeclined, event_id="w-3"))

    refused = [(cause, reason) for kind, cause, reason in ends(place) if "Refused" in kind]
    assert refused == [(name, "no-such-request") for name in ("w-2", "w-never", "w-3")]


def test_a_withdrawn_savepoint_is_answered_as_one(place: Place) -> None:
    request = savepoint_request(1)
    place.send(savepoint_request(2), request, withdrawal(request))
    assert [end[0] for end in ends(place)] == ["SavepointRejected", "RequestWithdrawn"]


def test_a_restore_that_waits_for_an_approval_ends_once_another_restore_is_complete(
    place: Place,
) -> None:
    request, other = awaited(place), restore("other")
    done = completed(other)
    place.send(done)  # of no task under way
    assert ends(place) == []
    place.send(other, done)

    assert ends(place) == [("RestoreRejected", request.event_id, "plan-changed")]
