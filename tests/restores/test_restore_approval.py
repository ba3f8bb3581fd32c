"""For some tables a restore is carried out only once a second person has approved it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from support.hudi_tables import (
    NOW,
    at,
    end_of,
    four_commits,
    restore_request,
    savepoint_request,
    tables_own,
    ticking,
    warehouse_over,
)
from support.samples import memory_bus, message, outcomes_on, work_off
from support.signing import ANA, COORDINATOR, EVE, entry, new_key, signed
from support.stepwise import Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.errors import FormatError, StopService
from tidegate.events import (
    Event,
    Outcome,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.ops.summary import sentence
from tidegate.publisher import Message
from tidegate.restores.executor import Restorer
from tidegate.restores.run import RestoreRun
from tidegate.restores.settings import RestoreRule, RestoreSettings
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings
from tidegate.signatures import signer
from tidegate.tables.warehouse import Warehouse
from tidegate.tables.warehouse.roots import every_spelling

BEN = new_key()
MINUTE = 60_000
START = round(NOW.timestamp() * 1000)
AGO = datetime.now(UTC) - NOW
RULE = RestoreRule(tables="*", approval=True, approved_by=("be*", "ada", "ana"))


class Place:
    """A bus with a clock of its own, a table with a savepoint, and a restorer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bus = memory_bus()
        self.bus.now_ms = lambda: self.now_ms
        self.now_ms = START
        self.table = four_commits(root / "orders", 9)
        writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
        list(writer.execute(savepoint_request(self.table, at(2))))
        self.rules: tuple[RestoreRule, ...] = (RULE,)
        self.settings = Settings()

    def run(self, *sent: Event | Message, warehouse: Warehouse | None = None) -> None:
        """Publish these, then let a fresh coordinator and restorer work off what there is."""
        self.bus.send([item if isinstance(item, Message) else message(item) for item in sent])
        trusting = authorization(self.settings, "memory")
        ours = warehouse or warehouse_over(self.root)
        clock = ticking(NOW + timedelta(minutes=1))
        settings = RestoreSettings(watch_seconds=0, rules=self.rules)
        restorer = Restorer(ours, ThreadMap(threads=1), clock, settings)
        coordinator = CoordinatorLoop(
            ReaderGate(), self.bus, authorization=trusting, sign=self.sign
        )
        worker = ExecutorLoop(restorer, self.bus, authorization=trusting, sign=self.sign)
        try:
            for _ in range(4):
                while coordinator.step(0):
                    pass
                work_off(worker)
        finally:
            worker.close()
            coordinator.close()
        assert self.bus.records("tidegate.dead-letters") == []

    def sign(self, _: Event, message: Message) -> Message:
        return message

    @property
    def outcomes(self) -> list[Outcome]:
        found = outcomes_on(self.bus)
        return [event for event in found if isinstance(event, Outcome)]

    def kinds(self) -> list[str]:
        return [type(outcome).__name__ for outcome in self.outcomes]

    def request(self, **more: Any) -> RestoreRequested:  # noqa: ANN401
        return restore_request(self.table, at(2), **more)

    def approval(self, of: RestoreRequested, /, **more: Any) -> RestoreApproved:  # noqa: ANN401
        fields = {
            "event_id": "approval-1",
            "table": of.table,
            "location": of.location,
            "occurred_at": NOW,
            "source": "cli",
            "caused_by": of.event_id,
            "request": of.event_id,
            "plan_id": self.plan_id,
            "approved_by": "ben",
            "reason": "looked at it",
        }
        return RestoreApproved.model_validate(fields | more)

    @property
    def plan_id(self) -> str:
        waiting = [
            outcome for outcome in self.outcomes if isinstance(outcome, RestoreAwaitingApproval)
        ]
        return waiting[-1].plan_id if waiting else "none"

    def refused(self) -> str:
        """The reason of the only answer to an approval."""
        (found,) = [e for e in self.outcomes if isinstance(e, RestoreApprovalRejected)]
        return found.reason


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_request_waits_for_an_approval_and_changes_nothing(place: Place) -> None:
    before = tables_own(place.root)

    place.run(place.request())

    (waiting,) = place.outcomes
    assert isinstance(waiting, RestoreAwaitingApproval)
    assert waiting.caused_by == place.request().event_id
    assert [instant.instant for instant in waiting.instants] == [at(4), at(3)]
    assert waiting.expires_at == NOW + timedelta(hours=24)
    assert waiting.requested_by == "ada"
    assert tables_own(place.root) == before


def test_the_approval_of_a_second_person_carries_it_out_under_the_request_s_own_id(
    place: Place,
) -> None:
    request = place.request()
    place.run(request)
    place.run(place.approval(request))

    _, started, completed = place.outcomes
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    for outcome in (started, completed):
        assert outcome.caused_by == request.event_id
        assert (outcome.requested_by, outcome.why) == ("ada", "bad load")
        assert (outcome.approval, outcome.approved_by) == ("approval-1", "ben")
        assert sentence(outcome).count("; approved by ben (unsigned)") == 1
    assert not (place.table.timeline / f"{at(4)}.commit").exists()


def test_a_repeat_of_the_request_or_the_approval_changes_nothing(place: Place) -> None:
    request = place.request()
    place.run(request)
    place.run(request)
    approval = place.approval(request)
    place.run(approval)
    place.table.commit("20260301130000000", at(2))
    before, kinds = tables_own(place.root), place.kinds()

    place.run(approval, request, approval)

    assert place.kinds() == kinds
    assert kinds == ["RestoreAwaitingApproval", "RestoreStarted", "RestoreCompleted"]
    assert tables_own(place.root) == before


def test_two_approvals_restore_once(place: Place) -> None:
    request = place.request()
    place.run(request)
    place.run(place.approval(request), place.approval(request, event_id="approval-2"))

    assert place.kinds().count("RestoreCompleted") == 1
    assert place.refused() == "not-awaiting"


def test_an_approval_before_its_request_is_refused_and_a_later_one_counts(place: Place) -> None:
    request = place.request()
    place.run(place.approval(request, plan_id="any"), request)
    assert place.refused() == "no-such-request"

    assert place.kinds() == ["RestoreApprovalRejected", "RestoreAwaitingApproval"]
    place.run(place.approval(request, event_id="approval-2"))
    assert place.kinds()[-1] == "RestoreCompleted"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"approved_by": "ada"}, "own-approval", id="own"),
        pytest.param({"approved_by": "eve"}, "not-an-approver", id="not listed"),
        pytest.param({"plan_id": "0" * 32}, "plan-changed", id="another plan"),
        pytest.param({"request": "another"}, "no-such-request", id="another request"),
        pytest.param({"location": "/lake/other"}, "no-such-request", id="another place"),
    ],
)
def test_an_approval_that_does_not_count_is_refused_and_another_one_may_come(
    place: Place, change: dict[str, str], reason: str
) -> None:
    request = place.request()
    place.run(request)
    before = tables_own(place.root)

    place.run(place.approval(request, **change))

    assert place.refused() == reason
    assert tables_own(place.root) == before
    place.run(place.approval(request, event_id="approval-2"))
    assert place.kinds()[-1] == "RestoreCompleted"


def test_an_approval_that_names_the_request_of_another_table_is_refused(place: Place) -> None:
    request = place.request()
    place.run(request)
    before = tables_own(place.root)
    # on every partition, so also on that of the request
    others = [
        place.approval(request, event_id=f"a-{n}", table=f"lake.sales.other_{n}") for n in range(9)
    ]

    place.run(*others)

    refused = [e for e in place.outcomes if isinstance(e, RestoreApprovalRejected)]
    assert {outcome.reason for outcome in refused} == {"no-such-request"}
    assert len(refused) == len(others)
    assert tables_own(place.root) == before


@pytest.mark.parametrize("minutes", [24 * 60, 24 * 60 + 1])
def test_an_approval_counts_for_a_time_by_the_broker_s_clock(place: Place, minutes: int) -> None:
    request = place.request()
    place.run(request)
    place.now_ms += minutes * MINUTE
    # whatever its own clock says
    place.run(place.approval(request, occurred_at=NOW - timedelta(days=300)))

    if minutes == 24 * 60:
        assert place.kinds()[-1] == "RestoreCompleted"
    else:
        assert place.refused() == "approval-expired"


def test_a_request_that_is_published_again_prolongs_nothing(place: Place) -> None:
    request = place.request()
    place.run(request)
    place.now_ms += 23 * 60 * MINUTE
    place.run(request)
    place.now_ms += 2 * 60 * MINUTE
    place.run(place.approval(request))

    assert place.refused() == "approval-expired"


def test_clocks_of_people_that_are_years_off_do_not_matter(place: Place) -> None:
    request = place.request(occurred_at=NOW + timedelta(days=4_000))
    place.run(request)
    place.run(place.approval(request, occurred_at=NOW + timedelta(days=9_000)))

    assert place.kinds()[-1] == "RestoreCompleted"


def test_the_plan_is_made_again_and_has_to_be_the_approved_one(place: Place) -> None:
    request = place.request()
    place.run(request)
    approval = place.approval(request)
    place.table.commit("20260301130000000", at(4))
    before = tables_own(place.root)

    place.run(approval)

    assert place.refused() == "plan-changed"
    assert tables_own(place.root) == before


def test_what_the_requester_had_not_seen_is_refused_for_both(place: Place) -> None:
    request = place.request(seen_up_to=end_of(at(4)))
    place.run(request)
    approval = place.approval(request)
    place.table.commit("20260301130000000", at(4))

    place.run(approval)

    rejected = place.outcomes[-1]
    assert isinstance(rejected, RestoreRejected)
    assert (rejected.reason, rejected.approval) == ("newer-commits", "approval-1")
    place.run(place.approval(request, event_id="approval-2"))
    assert place.refused() == "not-awaiting"


def test_a_table_that_needs_no_approval_any_more_is_not_restored_by_one(place: Place) -> None:
    request = place.request()
    place.run(request)
    place.rules = ()
    before = tables_own(place.root)

    place.run(place.approval(request), request)

    assert place.refused() == "approval-not-needed"
    assert place.kinds() == ["RestoreAwaitingApproval", "RestoreApprovalRejected"]
    assert tables_own(place.root) == before


def test_without_a_rule_a_restore_needs_no_approval(place: Place) -> None:
    place.rules = (RestoreRule(locations=("/lake/hr",), approval=True),)
    place.run(place.request())

    _, completed = place.outcomes
    assert isinstance(completed, RestoreCompleted)
    assert (completed.approval, completed.approved_by) == (None, None)


@pytest.mark.parametrize("name", ["other.sales.orders", "lake.sales.orders", "x.y.orders"])
def test_no_name_of_a_table_and_no_spelling_of_its_place_takes_the_approval_away(
    place: Place, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    link = tmp_path_factory.mktemp("links") / "lake"
    link.symlink_to(place.root)
    place.rules = (RULE.model_copy(update={"locations": every_spelling([f"{link}/ord*"])}),)
    before = tables_own(place.root)
    warehouse = warehouse_over(place.root, link)

    here = place.table.location
    for number, location in enumerate(
        [f"{here}/", f"file://{here}", f"{link}/orders", f"file:{link}//orders/."]
    ):
        fields = {"event_id": f"r{number}", "table": name, "location": location}
        asked = RestoreRequested.model_validate(place.request().model_dump() | fields)
        place.run(asked, warehouse=warehouse)

    assert set(place.kinds()) <= {"RestoreAwaitingApproval", "RestoreRejected"}
    if name != "x.y.orders":  # the table's own database is sales
        assert place.kinds() == ["RestoreAwaitingApproval"] * 4
    assert tables_own(place.root) == before


def test_a_plan_alone_needs_no_approval_and_gets_none(place: Place) -> None:
    request = place.request(plan_only=True)
    place.run(request)
    assert place.kinds() == ["RestorePlanned"]
    place.run(place.approval(request))

    assert place.refused() == "not-awaiting"


def test_a_refused_request_is_not_carried_out_by_an_approval(place: Place) -> None:
    lock = place.table.path / ".hoodie/lock"
    lock.touch()
    request = place.request()
    place.run(request)
    lock.unlink()
    place.run(place.approval(request, plan_id="any"))

    assert place.kinds() == ["RestoreRejected", "RestoreApprovalRejected"]
    assert place.refused() == "not-awaiting"


def steps_of_a_restore(root: Path) -> int:
    place = Place(root)
    request = place.request()
    place.run(request)
    counting = Stepwise(root, lambda _: None)
    place.run(place.approval(request), warehouse=counting)
    return counting.steps


def test_killed_anywhere_between_approval_and_completion_it_restores_once(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    steps = steps_of_a_restore(tmp_path / "all")
    assert steps > 5
    for step in range(1, steps + 1, 3):
        root = tmp_path / str(step)
        root.mkdir()
        place = Place(root)
        request = place.request()
        place.run(request)
        with pytest.raises(StopService):  # the worker dies
            place.run(place.approval(request), warehouse=Stepwise(root, killed_at(step)))

        place.run()

        kinds = place.kinds()
        assert kinds[0] == "RestoreAwaitingApproval", step
        assert kinds[-1] == "RestoreCompleted", step
        assert {e.caused_by for e in place.outcomes} == {request.event_id}, step
        assert all(getattr(e, "approval", "") == "approval-1" for e in place.outcomes[1:]), step


def test_a_restore_that_failed_is_resumed_by_a_new_request_and_its_approval(place: Place) -> None:
    request = place.request()
    place.run(request)
    with patch.object(RestoreRun, "check_end", side_effect=FormatError("a broken file")):
        place.run(place.approval(request))
    assert place.kinds()[-1] == "RestoreFailed"

    again = place.request(event_id="request-2")
    place.run(place.approval(request, event_id="approval-2"), again)
    assert place.refused() == "not-awaiting"
    place.run(place.approval(again, event_id="approval-3"))

    assert place.kinds()[-1] == "RestoreCompleted"


def test_a_restore_that_was_not_approved_in_time_is_rejected_without_being_asked(
    place: Place,
) -> None:
    place.run(place.request())
    place.now_ms += 25 * 60 * MINUTE
    place.run(place.request(event_id="another-request"))  # the broker's time goes on
    place.run()

    [rejected] = [e for e in place.outcomes if isinstance(e, RestoreRejected)]
    assert rejected.reason == "approval-expired"
    assert rejected.caused_by == place.request().event_id


class Signing(Place):
    """The same, where commands have to be signed."""

    def __init__(self, root: Path, *keys: dict[str, Any]) -> None:
        super().__init__(root)
        coordinator = entry(COORDINATOR, "services", roles=["coordinator", "worker"])
        security = {"require_signatures": True, "keys": [*keys, coordinator]}
        self.settings = Settings.model_validate({"security": security})

    def sign(self, _: Event, message: Message) -> Message:
        return signer(COORDINATOR, lambda: "memory", lambda: NOW)(_, message)


def both(key: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    return entry(key, name, roles=["requester", "approver"])


def test_signed_by_two_people_it_is_carried_out_and_names_both(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    # what the approval itself says is only compared, never believed
    place.run(signed(place.approval(request, approved_by="mallory"), BEN, ago=AGO))

    completed = place.outcomes[-1]
    assert isinstance(completed, RestoreCompleted)
    assert (completed.signed_by, completed.approval_signed_by) == ("ana", "ben")
    assert "; approved by ben (as mallory)" in sentence(completed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"plan_id": "0" * 32}, "plan-changed"), ({"location": "/lake/other"}, "no-such-request")],
)
def test_the_refusal_of_a_signed_approval_names_its_signer(
    tmp_path: Path, change: dict[str, str], reason: str
) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request, approved_by="mallory", **change), BEN, ago=AGO))

    refused = place.outcomes[-1]
    assert isinstance(refused, RestoreApprovalRejected)
    assert (refused.reason, refused.signed_by) == (reason, "ben")


def test_a_name_that_is_not_an_approver_is_named_by_its_key(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(EVE, "eve"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request), EVE, ago=AGO))

    refused = place.outcomes[-1]
    assert isinstance(refused, RestoreApprovalRejected)
    assert (refused.reason, refused.signed_by) == ("not-an-approver", "eve")
    assert refused.message.startswith("eve (as ben) is not listed in approved_by")


def test_a_request_with_a_key_of_the_wrong_role_names_its_signer(tmp_path: Path) -> None:
    place = Signing(tmp_path, entry(ANA, "ana", roles=["approver"]))
    place.run(signed(place.request(), ANA, ago=AGO))

    (refused,) = place.outcomes
    assert isinstance(refused, RestoreRejected)
    assert (refused.reason, refused.signed_by) == ("key-not-allowed", "ana")


def test_a_name_can_t_approve_its_own_request_with_another_of_its_keys(tmp_path: Path) -> None:
    second = new_key()
    place = Signing(tmp_path, both(ANA, "ana"), both(second, "ana"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request), second, ago=AGO))

    assert place.refused() == "own-approval"


def test_two_people_who_use_one_login_learn_which_name_they_share(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request(requested_by="root")
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request, approved_by="root"), BEN, ago=AGO))

    refused = place.outcomes[-1]
    assert isinstance(refused, RestoreApprovalRejected)
    assert refused.message == (
        "requested by ana (as root), approved by ben (as root): both have the name root;"
        " a second person has to approve it"
    )


def test_who_signs_for_another_can_t_approve_in_the_other_s_name(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request(requested_by="ben")  # asked by ben, as ana says
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request), BEN, ago=AGO))

    assert place.refused() == "own-approval"


def test_an_approval_without_a_good_signature_is_refused_and_does_not_hide_a_good_one(
    tmp_path: Path,
) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    place.run(message(place.approval(request)), signed(place.approval(request), EVE, ago=AGO))

    refused = [e for e in place.outcomes if isinstance(e, RestoreApprovalRejected)]
    assert [outcome.reason for outcome in refused] == ["not-signed", "bad-signature"]
    place.run(signed(place.approval(request), BEN, ago=AGO))
    assert place.kinds()[-1] == "RestoreCompleted"


def test_a_key_that_may_not_sign_approvals_approves_nothing(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), entry(BEN, "ben"))
    request = place.request()
    place.run(signed(request, ANA, ago=AGO))
    place.run(signed(place.approval(request), BEN, ago=AGO))

    assert place.refused() == "key-not-allowed"


def test_an_unsigned_request_has_nothing_to_approve(tmp_path: Path) -> None:
    place = Signing(tmp_path, both(ANA, "ana"), both(BEN, "ben"))
    request = place.request()
    place.run(message(request))
    place.run(signed(place.approval(request, plan_id="any"), BEN, ago=AGO))

    assert place.kinds() == ["RestoreRejected", "RestoreApprovalRejected"]
    assert place.refused() == "no-such-request"


def test_a_forged_outcome_makes_nothing_look_requested(place: Place, tmp_path: Path) -> None:
    forged = RestoreAwaitingApproval.about(
        place.request(),
        source="restorer",
        occurred_at=NOW,
        savepoint=at(2),
        plan_id="p",
        instants=(),
        files=0,
        bytes=0,
    )
    place.bus.send([message(forged)])
    before = tables_own(tmp_path)

    place.run(place.approval(place.request()))

    assert place.refused() == "no-such-request"
    assert tables_own(tmp_path) == before


def test_an_id_that_was_used_before_brings_no_rule_of_another_table(place: Place) -> None:
    other = str(place.root / "test")
    lax = RestoreRule(locations=(other,), approval=True, approved_by=("eve",))
    place.rules = (lax, RULE)
    request = place.request()
    place.run(request)
    approval = place.approval(request, approved_by="eve")
    place.run(approval)
    assert place.refused() == "not-an-approver"
    before = tables_own(place.root)

    # on every partition, so also on that of the request
    others = [
        place.approval(request, approved_by="eve", table=f"lake.test.t{n}", location=other)
        for n in range(9)
    ]
    place.run(*others)

    assert "RestoreStarted" not in place.kinds()
    assert tables_own(place.root) == before


def test_a_request_published_again_days_later_prolongs_nothing(place: Place) -> None:
    request = place.request()
    place.run(request)
    place.now_ms += 40 * 60 * MINUTE
    place.run(request)
    place.now_ms += 20 * 60 * MINUTE
    place.run(place.approval(request, occurred_at=NOW + timedelta(hours=60)))

    assert place.refused() == "not-awaiting"
    [rejected] = [e for e in place.outcomes if isinstance(e, RestoreRejected)]
    assert rejected.reason == "approval-expired"
