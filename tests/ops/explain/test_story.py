"""What happens next, from what is known; and which events belong together."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from support.deployment_events import (
    approved,
    awaiting,
    cleaned,
    completed,
    failed_attempt,
    rejected,
    released,
    restore_request,
    savepoint_created,
    started,
    vacuum,
)
from support.samples import NOON, commit, ended, release, savepoint_request, task_of
from tidegate.cli.look.explain import _show_dead_letters
from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.events import (
    CleaningDeferred,
    CommitCondemned,
    Event,
    OutstandingReader,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreFailed,
    SavepointRejected,
    SavepointsCheckRequested,
    TaskEnd,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumFinished,
    VacuumFlag,
    VacuumFlagged,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.ops.dead_letters import DeadLetter, DeadLetterFilter
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.explain import held_by, ids_of_chain
from tidegate.ops.story import Story
from tidegate.ops.waiting import PendingVacuum
from tidegate.runtime.bus import Partition, Record

NOTHING = ["nothing: every request has its outcome, and no vacuum waits"]


def story(*events: Event, waiting: tuple[PendingVacuum, ...] = ()) -> Story:
    record = Record(Partition("t", 0), 0, b"", b"", (), 0)
    vacuums = [WaitingVacuum.of_event(it, 0) for it in events if isinstance(it, VacuumFinished)]
    return Story("t", [LoggedEvent(record, it) for it in events], waiting, (), vacuums=vacuums)


def waits_for(event: Event, *holds: OutstandingReader) -> PendingVacuum:
    return PendingVacuum(event.table, "/l", None, event.event_id, NOON, "minor", ("d",), 3, holds)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((), id="nothing happened"),
        pytest.param((restore_request(), started(restore_request()), completed(restore_request()))),
        pytest.param(
            (
                *(restore_request(), rejected(restore_request())),
                *(restore_request("restore-2"), completed(restore_request("restore-2"))),
            ),
            id="refused, and done at the second attempt",
        ),
        pytest.param(
            (restore_request(), completed(restore_request()), rejected(restore_request())),
            id="done, and a copy was refused later",
        ),
        pytest.param(
            (
                savepoint_request(1),
                task_of(savepoint_request(1)),
                savepoint_created(1),
                ended(task_of(savepoint_request(1))),
            ),
            id="a savepoint",
        ),
        pytest.param((vacuum(7), released(vacuum(7)), cleaned(released(vacuum(7)))), id="cleaned"),
        pytest.param((commit(1), release(5)), id="facts without an answer"),
    ],
)
def test_where_everything_is_answered_nothing_happens_next(events: tuple[Event, ...]) -> None:
    assert story(*events).next_steps() == NOTHING


def test_a_request_that_was_refused_says_why_and_what_to_do() -> None:
    request = savepoint_request(1)
    refused = SavepointRejected.about(
        request,
        instant=str(request.instant),
        reason="instant-not-completed",
        message="it is inflight",
        source="savepoint-writer",
        occurred_at=NOON,
    ).to(request)

    [step] = story(request, refused).next_steps()
    assert step == (
        f"SavepointRequested {request.event_id} was refused (instant-not-completed: it is"
        " inflight), and nothing was changed: once that is mended, ask again"
    )
    [step] = story(restore_request(), rejected(restore_request())).next_steps()
    assert "was refused (writer-alive: a writer is at work)" in step
    withdrawn = rejected(restore_request()).model_copy(update={"reason": "withdrawn"})
    assert story(restore_request(), withdrawn).next_steps() == NOTHING


def test_a_task_that_is_tried_again_says_why() -> None:
    request = savepoint_request(1)
    task, failed = task_of(request), failed_attempt(request, 4)

    [step] = story(request, task, failed).next_steps()
    assert step == (
        f"SavepointRequested {request.event_id} is tried again by the savepoint writer: attempt 4"
        " failed: the disk is full"
    )
    [step] = replace(story(request, task, failed), stopped=["savepoint-writer"]).next_steps()
    assert step.endswith(
        "waits for the savepoint writer, which is not running (attempt 4 failed: the disk is full):"
        " tidegate run savepoint-writer"
    )
    [step] = replace(story(request), stopped=["coordinator", "savepoint-writer"]).next_steps()
    assert step.endswith("the coordinator, which is not running: tidegate run coordinator")
    events = failed_attempt(request, 1), failed, savepoint_created(1)
    tried = story(request, task, *events, ended(task))
    assert tried.next_steps() == NOTHING
    assert [logged.event for logged in tried.shown()] == [request, task, *events[1:]]


def test_what_was_refused_about_a_request_that_has_ended_is_not_a_next_step() -> None:
    request = restore_request()
    approval = RestoreApproved(
        event_id="approval-1",
        table=request.table,
        location=request.location,
        occurred_at=NOON,
        source="cli",
        request=request.event_id,
        plan_id="p0",
        approved_by="ben",
        reason="checked",
    )
    refused = RestoreApprovalRejected.about(
        approval,
        source="restorer",
        occurred_at=NOON,
        request=request.event_id,
        reason="plan-changed",
        message="the plan is now p1",
    ).to(approval)
    waits = awaiting(request, NOON)

    assert "plan-changed" in " ".join(story(request, waits, approval, refused).next_steps())
    ended = rejected(request)
    [step] = story(request, waits, approval, refused, ended).next_steps()
    assert "plan-changed" not in step


def test_a_request_without_an_outcome_will_be_carried_out() -> None:
    [step] = story(restore_request()).next_steps()
    assert step == "RestoreRequested restore-1 has no outcome yet: the restorer will carry it out"
    task = task_of(restore_request(), 3)
    [step] = story(restore_request(), task).next_steps()
    assert step.endswith("no outcome yet: the restorer will carry it out, as task 3 of the table")
    [step] = story(restore_request(), task, started(restore_request())).next_steps()
    assert "is under way: the restorer has published RestoreStarted" in step


def test_a_request_that_became_a_dead_letter_is_not_under_way() -> None:
    request, task = restore_request(), task_of(restore_request(), 3)
    dead = ended(task, end=TaskEnd.DEAD_LETTERED, message="no permission")

    [step] = story(request, task, started(request), dead).next_steps()
    assert step == (
        "RestoreRequested restore-1 failed half way: no permission; the table takes no writes until"
        " its restore is complete"
    )
    [step] = story(request, task, dead).next_steps()
    assert step == "RestoreRequested restore-1 is a dead letter: no permission"


def test_a_restore_that_became_a_dead_letter_half_way_goes_on_by_its_redrive() -> None:
    request, task = restore_request(), task_of(restore_request(), 3)
    end = ended(task, end=TaskEnd.DEAD_LETTERED, message="no permission")
    seen = story(request, task, started(request), end)
    old = dead_letter(6, "no permission", "redriven")
    found = [old, dead_letter(7, "no permission"), dead_letter(8, "lost", "discarded")]

    step, decision = replace(seen, dead_letters=found).next_steps()
    assert step == (
        "RestoreRequested restore-1 failed half way: no permission; the table takes no writes until"
        " its restore is complete; mend the cause, then: tidegate dead-letters redrive d-7"
        " --destructive --execute"
    )
    assert decision.startswith("dead letter d-7 of cleaner waits for a decision")


def test_a_vacuum_that_waits_is_known_to_wait_even_if_older_ones_alone_are_listed() -> None:
    young, old = vacuum(17), vacuum(7)
    oldest = (waits_for(old, OutstandingReader(lock_id=7)),)
    also = {young.event_id}
    shown = replace(story(young, waiting=oldest), waiting_in_all=5, also_waiting=also)

    [first, second] = shown.next_steps()

    assert old.event_id in first
    assert second == "4 younger vacuums wait, too: tidegate waiting --table lake.sales.orders"


def test_a_vacuum_that_was_published_again_with_other_content_is_replaced_and_not_unread() -> None:
    event = vacuum(7, 8)
    fields = event.model_dump(exclude={"event_id"}) | {"own_transaction_id": 77}
    corrected = VacuumFinished.model_validate(fields)
    assert corrected.event_id != event.event_id

    [step] = story(
        event, corrected, waiting=(waits_for(corrected, OutstandingReader(lock_id=8)),)
    ).next_steps()
    assert corrected.event_id in step


def test_a_vacuum_that_was_published_again_with_other_holds_is_merged_and_not_unread() -> None:
    first, again = vacuum(7), vacuum(7, 8)
    assert first.event_id != again.event_id
    waits = waits_for(first, OutstandingReader(lock_id=7), OutstandingReader(lock_id=8))

    assert story(first, again, waiting=(waits,)).next_steps() == [
        (
            f"the cleaning after vacuum {first.event_id} (published again as {again.event_id}) is"
            " released when these have ended: lock 7, lock 8"
        )
    ]
    done = cleaned(released(first))
    assert story(first, released(first), done, again).next_steps() == NOTHING
    known = {first.event_id, again.event_id, released(first).event_id}
    for event in (first, again, released(first)):
        assert ids_of_chain(event.event_id, [first, again, vacuum(9), released(first)]) == known


def test_a_hold_of_a_person_is_a_next_step_also_where_no_vacuum_waits() -> None:
    hold = {"table": "lake.sales.orders", "signed_by": "mara", "requested_by": "root"}
    hold["reason"] = "an audit"
    [step] = replace(story(commit(1)), held=[hold]).next_steps()

    assert step == (
        "the table is held by mara (as root): an audit; nothing of it is cleaned until: tidegate"
        " hold remove lake.sales.orders --reason 'it is done'"
    )


def test_a_deferred_cleaning_is_released_again_in_time_or_with_the_removal_of_the_hold() -> None:
    command = released(vacuum(7))
    deferred = CleaningDeferred.model_validate(
        command.model_dump(include=CleaningDeferred.model_fields.keys() - {"event_id"})
        | {"caused_by": command.event_id, "reason": "not-confirmed", "message": "it is open there"}
        | {"retry_after_ms": 90_000, "vacuum": vacuum(7).event_id}
    )
    seen = story(command, deferred)
    [step] = seen.next_steps()
    assert step.endswith(" is released again after 90s: not-confirmed: it is open there")

    hold = {"table": command.table, "signed_by": None, "requested_by": "mara", "reason": "an audit"}
    [_, step] = replace(seen, held=[hold]).next_steps()
    assert " is released again when the hold of the table is removed: not-confirmed" in step


def test_a_flagged_commit_or_vacuum_of_today_is_a_next_step_with_its_reason() -> None:
    flagged = VacuumFlagged.about(
        vacuum(7),
        source="coordinator",
        occurred_at=NOON,
        flag=VacuumFlag.RELEASE_MAY_BE_FORGOTTEN,
        message="its release may have come",
    )
    now, yesterday = (int(1000 * (time.time() - ago)) for ago in (0, 90_000))

    def steps(milliseconds: int, *more: Event) -> list[str]:
        record = Record(Partition("t", 0), 0, b"", b"", (), milliseconds)
        events = [LoggedEvent(record, event) for event in (flagged, *more)]
        return replace(story(), events=events).next_steps()

    [step] = steps(now)
    assert step == (
        "flagged vacuum of lake.sales.orders: release-may-be-forgotten: its release may have come:"
        " tidegate waiting --table lake.sales.orders"
    )
    assert steps(yesterday) == NOTHING
    assert steps(now, cleaned(released(vacuum(7)))) == NOTHING


def test_a_restore_that_waits_for_an_approval_says_how_it_is_given() -> None:
    request = restore_request()
    [step] = story(request, awaiting(request, NOON)).next_steps()

    assert "once a second person approves it by 2026-11-21T12:00:00Z" in step
    assert step.endswith(
        f": tidegate publish approval --request restore-1 --plan-id p1 --table {request.table}"
        f" --location {request.location} --reason 'checked the plan'"
    )


def test_an_approval_is_answered_by_the_outcomes_of_its_request() -> None:
    request = restore_request()
    under = {"approval": "approval-1", "approved_by": "ben"}
    ran = [
        type(outcome).model_validate(outcome.model_dump() | under)
        for outcome in (started(request), completed(request))
    ]
    known = (request, awaiting(request), approved(request))

    assert story(*known, *ran).next_steps() == NOTHING
    [step] = story(*known, ran[0]).next_steps()  # one restore, one line
    assert step.startswith("RestoreRequested restore-1 is under way")


def test_a_restore_that_failed_is_resumed_by_another_request() -> None:
    request = restore_request()
    failed = RestoreFailed.about(
        request,
        savepoint=request.savepoint,
        restore_instant="20261121060000000",
        message="a write completed",
        source="restorer",
        occurred_at=NOON,
    )
    [step] = story(request, started(request), failed).next_steps()

    assert step == (
        "RestoreRequested restore-1 failed half way: a write completed; the table takes no writes"
        f" until its restore is complete; another request to {request.savepoint} resumes it"
    )
    other = restore_request("restore-2")
    again = (other, started(other))
    [_, step] = story(request, started(request), failed, *again).next_steps()
    assert step.startswith("RestoreRequested restore-2 is under way")
    assert story(request, started(request), failed, *again, completed(other)).next_steps() == (
        NOTHING
    )


def test_a_withdrawal_that_came_too_late_is_not_asked_for_again() -> None:
    request = restore_request()
    late = WithdrawalRequested.model_validate(
        request.model_dump(include={"table", "location", "source", "occurred_at", "requested_by"})
        | {"event_id": "w-1", "request": request.event_id, "reason": "oops"}
    )
    refused = WithdrawalRefused.about(
        late,
        request=late.request,
        reason="too-late",
        message="it goes on",
        source="coordinator",
        occurred_at=NOON,
    ).to(late)

    [step] = story(request, started(request), late, refused).next_steps()

    assert step.startswith("RestoreRequested restore-1 is under way")


def test_an_overdue_vacuum_has_the_command_for_a_release_that_was_lost() -> None:
    event = vacuum(7, 8)
    held = OutstandingReader(lock_id=8), OutstandingReader(lock_id=9, transaction_id=5)
    for reader, option in zip(held, ("lock-id 8", "transaction-id 5"), strict=True):
        overdue = replace(waits_for(event, reader), overdue_since=NOON)
        [step] = story(event, waiting=(overdue,)).next_steps()
        assert step.endswith(
            f"; it is overdue. If {reader} has ended and its release was lost: tidegate publish"
            f" lock-released --table {event.table} --location /l --{option}"
        )
    overdue = replace(waits_for(event, *held), overdue_since=NOON, metastore="m-1")
    [step] = story(event, waiting=(overdue,)).next_steps()
    assert step.endswith("; it is overdue")  # its bridge publishes the ends


def test_a_vacuum_that_waits_is_released_when_its_holds_have_ended() -> None:
    event = vacuum(7, 8)
    [step] = story(
        event, waiting=(waits_for(event, OutstandingReader(lock_id=8, owner="ana")),)
    ).next_steps()

    assert step.endswith("is released when these have ended: lock 8 of ana")
    [step] = story(event).next_steps()
    assert "neither waiting nor released" in step
    again = vacuum(7, 8, 9)  # its readers are added to those of the first one
    assert again.event_id != event.event_id
    [step] = story(event, again, waiting=(waits_for(event),)).next_steps()
    assert "is released with the next event" in step


def test_a_chain_goes_from_the_first_cause_to_the_last_outcome() -> None:
    event, other = vacuum(7), restore_request()
    events = [completed(other), cleaned(released(event)), other, released(event), event]
    ids = {event.event_id for event in events[1:2] + events[3:]}

    for event_ in (event, released(event), cleaned(released(event))):
        assert ids_of_chain(event_.event_id, events) == ids
    assert ids_of_chain("alone", events) == {"alone"}


def test_events_that_name_each_other_as_cause_end_the_search() -> None:
    one = started(restore_request("a"))
    loop = [
        one.model_validate(one.model_dump() | {"event_id": "x", "caused_by": "y"}),
        one.model_validate(one.model_dump() | {"event_id": "y", "caused_by": "x"}),
    ]
    assert ids_of_chain("x", loop) == {"x", "y"}


def test_a_release_belongs_to_the_vacuum_that_waits_for_it() -> None:
    # asked for each of 80,000 releases: the ids are gathered once
    held = held_by(iter([vacuum(7, 8, transactions=(90,)), vacuum(11)]))

    assert held(release(8))
    assert held(release(11))
    assert not held(release(9))
    assert not held(commit(1))
    by_transaction = release(1).model_dump(exclude={"event_id", "lock_id"})
    for transaction_id, is_one in ((90, True), (91, False)):
        ended = by_transaction | {"transaction_id": transaction_id}
        assert held(type(release(1)).model_validate(ended)) == is_one


def test_releases_of_an_unknown_table_are_a_matter_until_its_vacuum_comes() -> None:
    alarm = UnknownTableReleased.about(
        release(5),
        source="coordinator",
        occurred_at=NOON,
        since=NOON,
        limit_seconds=1,
        published_by="bridge",
        message="no vacuum of it came",
    )
    [step] = story(release(5), alarm).next_steps()

    assert step == f"{alarm.table}: no vacuum of it came"
    known = vacuum(7)
    times = {"since": NOON, "unknown_since": NOON}
    over = UnknownTableResolved.about(known, source="coordinator", occurred_at=NOON, **times)
    assert not any(
        "no vacuum of it" in step
        for step in story(release(5), alarm, known, over, released(known)).next_steps()
    )


def test_a_condemned_commit_to_which_no_service_reacts_is_a_next_step() -> None:
    bad = CommitCondemned(
        table="lake.sales.orders",
        location="/lake/orders",
        occurred_at=NOON,
        source="ingest",
        instant="20261121120000001",
        reason="doubled",
    )
    check = SavepointsCheckRequested.about(
        bad, source="coordinator", occurred_at=NOON, attempt=1, condemned=bad.instant
    )

    [step] = story(bad).next_steps()

    assert step.startswith(f"commit {bad.instant} is condemned, and no service reacted")
    assert "tidegate plan restore --table lake.sales.orders --savepoint" in step
    assert not any("no service reacted" in step for step in story(bad, check).next_steps())
    record = Record(Partition("dead", 0), 0, b"", b"", (), 0)
    dead = DeadLetter("d-1", record, "coordinator", Partition("t", 0), 0, "of the future", ())
    [step] = replace(story(bad), dead_letters=[dead]).next_steps()
    assert step.startswith("dead letter d-1 of coordinator")


def dead_letter(number: int, error: str, state: str = "open") -> DeadLetter:
    record = Record(Partition("dead", 0), number, b"lake.sales.orders", b"", (), 0)
    at = Partition("t", 0)
    headers = (("ce_id", b"restore-1"),)
    found = DeadLetter(f"d-{number}", record, "cleaner", at, number, error, headers)
    return replace(found, state=state, table="lake.sales.orders")


def test_dead_letters_of_one_reason_have_one_next_step() -> None:
    of_files = [
        dead_letter(number, f"not found: /lake/orders/f{number}.parquet") for number in range(3)
    ]
    found = [
        *of_files,
        dead_letter(7, "not-signed: a"),
        dead_letter(8, "not found: /lake", "discarded"),
    ]

    files, unsigned = replace(story(), dead_letters=found).next_steps()

    assert files == (
        "3 dead letters of cleaner wait for a decision (not found: /lake/orders/f0.parquet):"
        " tidegate dead-letters list --table lake.sales.orders --service cleaner"
        " --error 'not found: /lake/orders/f'; if none is needed:"
        " tidegate dead-letters discard --table lake.sales.orders --service cleaner"
        " --error 'not found: /lake/orders/f' --reason WHY"
    )
    assert unsigned.startswith("dead letter d-7 of cleaner waits for a decision (not-signed: a)")
    wanted = DeadLetterFilter(
        table="lake.sales.orders", service="cleaner", reason="not found: /lake/orders/f"
    )
    assert [it for it in found if wanted.matches(it)] == of_files


def test_resolved_dead_letters_are_counted_and_open_ones_shown_by_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [dead_letter(1, "lost 1"), dead_letter(2, "lost 2"), dead_letter(3, "old", "discarded")]

    _show_dead_letters(replace(story(), dead_letters=found))

    assert capsys.readouterr().out.splitlines() == [
        "  d-1  open  cleaner: lost 1 (and 1 more like it)",
        "  1 discarded; see: tidegate dead-letters list --table lake.sales.orders --all",
    ]


def test_what_a_person_skipped_is_shown_with_the_way_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = dead_letter(7, "skipped by ana: it crashes", "discarded")
    found = replace(story(restore_request()), dead_letters=[skipped])

    _show_dead_letters(found)

    assert capsys.readouterr().out == (
        "  t/0/7 was skipped by ana: it crashes; cleaner never processed it; to publish it again:"
        " tidegate dead-letters redrive d-7 --all --execute\n"
    )
    assert found.next_steps() == [
        "RestoreRequested restore-1 is a dead letter: skipped by ana: it crashes"
    ]
    redriven = replace(story(restore_request()), dead_letters=[replace(skipped, state="redriven")])
    assert "has no outcome yet" in redriven.next_steps()[0]


def test_errors_that_differ_from_the_start_are_selected_by_their_service() -> None:
    [step] = replace(
        story(), dead_letters=[dead_letter(1, "1 is bad"), dead_letter(2, "2 is bad")]
    ).next_steps()

    assert "list --table lake.sales.orders --service cleaner; if none" in step


def test_a_restore_that_was_approved_waits_for_no_person() -> None:
    request = restore_request()

    steps = story(request, awaiting(request), approved(request)).next_steps()

    assert len(steps) == 1
    assert steps[0].startswith("RestoreApproved")


def test_people_see_an_event_once_and_no_end_of_a_task_that_did_its_work() -> None:
    task = task_of(savepoint_request(1))
    created = savepoint_created(1)

    shown = [event.event for event in story(created, ended(task), created, ended(task)).shown()]

    assert shown == [created]
