"""The gate's and the policy's commands are signed too: no other client can publish them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from support.acid import INSERTS, build, tree
from support.deployment_events import approved, awaiting, released, restore_request
from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    commit,
    ended,
    events_on,
    memory_bus,
    message,
    outcomes_on,
    release,
    tasks_on,
    work_off,
)
from support.signing import ANA, EVE, cleaning, entry, key_file, new_key, signed
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.errors import ConfigError
from tidegate.events import (
    CleaningDeferred,
    CleaningRefused,
    Event,
    LockHold,
    TaskEnded,
    TaskIssued,
    VacuumFinished,
    VacuumKind,
    WritesAborted,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import not_confirmed, refusal
from tidegate.events.signature import SIGNATURE_HEADER
from tidegate.events.wire import Message, Wire
from tidegate.ops.doctor.finding import checked
from tidegate.ops.doctor.local import check_signatures
from tidegate.runtime.authorization import Unauthorized
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import REDRIVEN_FROM
from tidegate.service.assembly import assemble, authorization
from tidegate.service.bridge_assembly import metastore_bridge
from tidegate.service.settings import Settings
from tidegate.signatures import SigningKey, signer

BEN = new_key()
NOW = datetime.now(UTC)


def with_signature_of(event: Event, other: Event) -> Message:
    return message(event)._replace(headers=signed(other, BEN).headers)


def deployment(
    folder: Path, *, key: Path | None, required: bool = True, locations: Sequence[str] = ("/lake",)
) -> Settings:
    security = {
        "require_signatures": required,
        "sign_with": key,
        "keys": [
            entry(ANA, "coordinator", roles=["coordinator", "worker"]),
            entry(BEN, "bridge", roles=["writer"], tables=["lake.sales.*"], locations=locations),
            entry(EVE, "eve", roles=["requester", "approver"]),
        ],
    }
    return Settings.model_validate({"security": security, "warehouse": {"roots": [str(folder)]}})


def vacuum(location: str = "/lake/orders") -> VacuumFinished:
    return VacuumFinished(
        table="lake.sales.orders",
        location=location,
        source="hive",
        occurred_at=NOON,
        kind=VacuumKind.MAJOR,
        directories=("base_5",),
        min_write_id=1,
        max_write_id=5,
        valid_write_ids="sales.orders:5:9223372036854775807::",
        own_lock_id=7,
        locks=(LockHold(lock_id=7),),
    )


def run_gate(settings: Settings, bus: MemoryBus) -> None:
    loop = assemble("coordinator", settings, bus)
    assert isinstance(loop, CoordinatorLoop)
    while loop.step(0.01):
        pass
    loop.close()


def cleaned(settings: Settings, bus: MemoryBus) -> list[CleaningRefused]:
    loop = assemble("cleaner", settings, bus)
    assert isinstance(loop, ExecutorLoop)
    work_off(loop)
    loop.close()
    found = outcomes_on(bus)
    return [event for event in found if isinstance(event, CleaningRefused)]


def test_the_gate_signs_and_the_cleaner_obeys_no_other_signer(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    bus.send([message(cleaning())])  # around the gate
    bus.send([signed(vacuum(), BEN), signed(release(7), BEN)])

    run_gate(settings, bus)
    forged, released = cleaned(settings, bus)

    assert (forged.reason, forged.signed_by) == ("not-signed", None)
    # this one was looked at: the table is just not there
    assert (released.reason, released.signed_by) == ("outside-warehouse", "coordinator")


def unsigned(event: Event) -> Message:
    return message(event)


@pytest.mark.parametrize(
    ("vacuums", "releases", "reason"),
    [
        pytest.param(unsigned, partial(signed, key=BEN), "not-signed", id="unsigned vacuum"),
        pytest.param(partial(signed, key=BEN), unsigned, "not-signed", id="unsigned release"),
        pytest.param(
            partial(signed, key=new_key()), partial(signed, key=BEN), "bad-signature",
            id="vacuum of a stranger",
        ),
        pytest.param(
            partial(signed, key=BEN), partial(signed, key=new_key()), "bad-signature",
            id="release of a stranger",
        ),
        pytest.param(
            partial(signed, key=BEN), partial(signed, key=EVE), "key-not-allowed",
            id="release with a key for other things",
        ),
        pytest.param(
            partial(signed, key=BEN),
            lambda event: with_signature_of(event, vacuum()),
            "bad-signature",
            id="release with the signature of a vacuum",
        ),
        pytest.param(
            lambda _: signed(vacuum("/hr/salaries"), BEN), partial(signed, key=BEN),
            "key-not-allowed",
            id="vacuum of a table in another place",
        ),
    ],
)  # fmt: skip
def test_no_cleaning_follows_from_a_fact_that_no_trusted_key_has_signed(
    tmp_path: Path,
    vacuums: Callable[[Event], Message],
    releases: Callable[[Event], Message],
    reason: str,
) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    bus.send([vacuums(vacuum()), releases(release(7))])
    run_gate(settings, bus)

    assert bus.records("tidegate.tasks") == []
    [refused] = bus.records("tidegate.dead-letters")
    assert reason in str(dict(refused.headers))
    bus.send([signed(vacuum(), BEN), signed(release(7), BEN)])
    run_gate(settings, bus)
    assert len(bus.records("tidegate.tasks")) == 1


def test_aborted_writes_need_a_signature_too(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    aborted = WritesAborted(
        table="lake.sales.orders",
        location="/lake/orders",
        source="bridge",
        occurred_at=NOON,
        valid_write_ids="sales.orders:5:9223372036854775807::5",
        content="0" * 64,
    )
    bus.send([message(aborted)])
    run_gate(settings, bus)
    assert bus.records("tidegate.tasks") == []

    bus.send([signed(aborted, BEN)])
    run_gate(settings, bus)
    assert len(bus.records("tidegate.tasks")) == 1


def deferral() -> CleaningDeferred:
    return not_confirmed(released(vacuum()), Reason.NOT_CONFIRMED, "it is open", NOON)


def under_way(settings: Settings, bus: MemoryBus) -> TaskIssued:
    """The task of a released vacuum."""
    bus.send([signed(vacuum(), BEN), signed(release(7), BEN)])
    run_gate(settings, bus)
    (issued,) = tasks_on(bus)
    return issued


@pytest.mark.parametrize(
    ("of_task", "signer", "reason"),
    [
        pytest.param(lambda _: deferral(), None, "not-signed", id="unsigned deferral"),
        pytest.param(ended, None, "not-signed", id="unsigned end"),
        pytest.param(ended, new_key(), "bad-signature", id="a stranger's end"),
        pytest.param(ended, BEN, "key-not-allowed", id="a writer's end"),
    ],
)
def test_the_coordinator_acts_on_no_outcome_that_no_worker_signed(
    of_task: Callable[[TaskIssued], Event], signer: SigningKey | None, reason: str, tmp_path: Path
) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    outcome = of_task(under_way(settings, bus))
    bus.send([signed(vacuum("/lake/orders/next"), BEN)])  # waits for its turn
    known = len(tasks_on(bus))

    bus.send([message(outcome) if signer is None else signed(outcome, signer)])
    run_gate(settings, bus)
    [refused] = bus.records("tidegate.dead-letters")
    assert reason in str(dict(refused.headers))
    assert len(tasks_on(bus)) == known

    bus.send([signed(ended(tasks_on(bus)[0]), ANA)])
    run_gate(settings, bus)
    assert len(tasks_on(bus)) == known + 1


def forged(issued: TaskIssued, **changes: object) -> TaskIssued:
    return TaskIssued.model_validate(issued.model_dump() | changes)


def test_a_worker_signs_no_end_of_a_task_that_the_coordinator_did_not_issue(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    issued = under_way(settings, bus)
    undecodable = issued.command.model_copy(update={"value": b"x"})
    stranger = memory_bus()
    stranger.send(
        [
            message(forged(issued, command=undecodable.model_dump())),
            redriven(message(issued)),
            *(message(issued) for _ in range(30)),  # more than are answered
        ]
    )
    cleaned(settings, stranger)

    found = events_on(stranger, "tidegate.outcomes")
    assert not [event for event in found if isinstance(event, TaskEnded)]
    # what it answers about the copies of the command is not an outcome of the real task
    bus.send([record_as_message(r) for r in stranger.records("tidegate.outcomes")])
    run_gate(settings, bus)
    assert len(tasks_on(bus)) == 1


def test_a_worker_s_refusal_of_a_stranger_s_copy_makes_no_room_for_a_second_approval(
    tmp_path: Path,
) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    request = restore_request()
    approval = approved(request)
    refused = refusal(approval, Reason.NOT_SIGNED, "not signed", "restorer", NOON)

    def next_task(*sent: Event, key: SigningKey = ANA) -> TaskIssued:
        bus.send([signed(event, key) for event in sent])
        run_gate(settings, bus)
        return tasks_on(bus)[-1]

    planned = next_task(request, key=EVE)
    next_task(awaiting(request, NOW + timedelta(days=1)), ended(planned))
    restore = next_task(approval, key=EVE)
    assert restore != planned
    next_task(refused, ended(restore))
    again = approval.model_copy(update={"event_id": "approval-2"})

    assert next_task(again, key=EVE) == restore


def test_a_link_in_a_location_of_a_key_leads_to_no_other_table(tmp_path: Path) -> None:
    payroll, mine = tmp_path / "payroll", tmp_path / "mine"
    build(payroll, {**dict.fromkeys(INSERTS, 9), "delta_0000001_0000003": 27})
    mine.mkdir()
    (mine / "orders").symlink_to(payroll)
    settings = deployment(tmp_path, key=key_file(tmp_path), locations=["/lake", str(mine)])
    bus = memory_bus()
    bus.send([signed(vacuum(f"{mine}/orders"), BEN), signed(release(7), BEN)])
    before = tree(payroll)

    run_gate(settings, bus)
    [refused] = cleaned(settings, bus)

    assert refused.reason == "link-inside"
    assert tree(payroll) == before


def test_a_command_that_no_task_carries_becomes_a_dead_letter(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    bus.send([signer(ANA, lambda: "memory")(cleaning(), bare(cleaning()))])
    cleaned(settings, bus)

    [refused] = bus.records("tidegate.dead-letters")
    assert "counts only within a TaskIssued" in str(dict(refused.headers))


def test_a_task_that_waits_for_days_is_published_again_with_a_new_signature(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    issued = under_way(settings, bus)
    bus.now_ms = lambda: round((datetime.now(UTC) + timedelta(days=2)).timestamp() * 1000)
    later = signer(ANA, lambda: "memory", lambda: datetime.now(UTC) + timedelta(days=2))
    loop = CoordinatorLoop(
        ReaderGate(), bus, sign=later, authorization=authorization(settings, "memory")
    )
    loop.step(0.01)
    loop.close()

    trusting = authorization(settings, "memory")
    first, repeated = bus.records("tidegate.tasks")
    for record in (first, repeated):
        key = trusting.check(issued, record)
        assert key is not None
        assert (key.name, key.public.key_id) == ("coordinator", ANA.key_id)
    with pytest.raises(Unauthorized, match="expired"):
        trusting.check(issued, first._replace(timestamp_ms=repeated.timestamp_ms))


def test_a_copy_of_the_command_in_a_task_counts_on_no_other_topic(tmp_path: Path) -> None:
    bus, settings = memory_bus(), deployment(tmp_path, key=key_file(tmp_path))
    carried = under_way(settings, bus).command
    event = Wire().deserialize(
        b"lake.sales.orders", carried.value, [(h.name, h.value) for h in carried.headers]
    )
    headers = carried.pairs
    now = round(carried.appended_at.timestamp() * 1000)
    trusting = authorization(settings, "memory")

    for topic, counts in (("tidegate.tasks", True), ("tidegate.requests", False)):
        record = Record(Partition(topic, 0), 0, b"", carried.value, headers, now)
        with nullcontext() if counts else pytest.raises(Unauthorized, match="its aud differs"):
            trusting.check(event, record)


def bare(event: Event) -> Message:
    return Wire().serialize(event, "tidegate.tasks")


def redriven(sent: Message) -> Message:
    return sent._replace(headers=(*sent.headers, (REDRIVEN_FROM, b"1")))


def record_as_message(record: Record) -> Message:
    return Message(record.partition.topic, record.key, record.value, record.headers)


def test_the_policy_signs_its_requests(tmp_path: Path) -> None:
    bus = memory_bus()
    values = {
        "security": {"sign_with": key_file(tmp_path)},
        "savepoints": [{"tables": "*", "when": "every_commit", "lifetime": "forever"}],
    }
    bus.send([message(commit(1))])
    loop = assemble("coordinator", Settings.model_validate(values), bus)
    assert isinstance(loop, CoordinatorLoop)
    while loop.step(0.01):
        pass
    (task,) = bus.records("tidegate.tasks")
    (issued,) = tasks_on(bus)

    assert SIGNATURE_HEADER in dict(task.headers)
    assert SIGNATURE_HEADER in {header.name for header in issued.command.headers}


def test_a_coordinator_without_a_key_does_not_start_where_signatures_are_required(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="this service has no key"):
        assemble("coordinator", deployment(tmp_path, key=None), memory_bus())


def test_a_bridge_without_a_key_does_not_start_where_signatures_are_required(
    tmp_path: Path,
) -> None:
    bridge = {"metastore": {"uri": "thrift://127.0.0.1:1"}}
    values = deployment(tmp_path, key=None).model_dump() | {"bridge": bridge}
    values["kafka"] = {"bootstrap.servers": "127.0.0.1:1"}

    with pytest.raises(ConfigError, match="this service has no key"):
        metastore_bridge(Settings.model_validate(values), memory_bus())


@pytest.mark.parametrize("service", ["cleaner", "restorer", "savepoint-writer"])
def test_a_worker_without_a_key_does_not_start_where_signatures_are_required(
    service: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match='with roles = \\["worker"\\]'):
        assemble(service, deployment(tmp_path, key=None), memory_bus())


def test_a_service_whose_key_may_not_sign_what_it_publishes_does_not_start(tmp_path: Path) -> None:
    settings = deployment(tmp_path, key=key_file(tmp_path, EVE))

    with pytest.raises(ConfigError, match='add "coordinator" to the roles of eve'):
        assemble("coordinator", settings, memory_bus())
    with pytest.raises(ConfigError, match='add "worker" to the roles of eve'):
        assemble("cleaner", settings, memory_bus())


def test_a_coordinator_whose_key_is_not_trusted_does_not_start(tmp_path: Path) -> None:
    settings = deployment(tmp_path, key=key_file(tmp_path, new_key()))

    with pytest.raises(ConfigError, match=r"is not in \[\[security.keys\]\]"):
        assemble("coordinator", settings, memory_bus())


def test_the_doctor_says_plainly_what_guards_an_unsigned_deployment(tmp_path: Path) -> None:
    unsigned = check_signatures(Settings())
    assert (unsigned.state, "the only guard" in unsigned.seen) == ("warn", True)
    assert "approval" not in unsigned.seen
    rules = {"rules": [{"locations": ["/lake"], "approval": True}]}
    approved = check_signatures(Settings.model_validate({"restores": rules}))
    assert (approved.state, "against mistakes" in approved.seen) == ("warn", True)

    signed = check_signatures(deployment(tmp_path, key=key_file(tmp_path)))
    assert (signed.state, signed.seen) == ("ok", "required; 3 valid keys: bridge, coordinator, eve")


def test_the_doctor_says_that_others_can_read_the_private_key(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    file.chmod(0o640)

    found = checked("signatures", partial(check_signatures, deployment(tmp_path, key=file)))
    assert found.state == "fail"
    assert f"chmod 600 {file}" in found.seen


def test_a_public_key_in_place_of_the_private_one_is_named_before_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "ana.pub"
    file.write_text(ANA.public_pem)
    file.chmod(0o644)

    with pytest.raises(ConfigError, match="is a public key: the private one signs"):
        SigningKey.read(file)
