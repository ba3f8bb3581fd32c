"""The gate's and the policy's commands are signed too: no other client can publish them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.memory_bus import MemoryBus
from support.samples import NOON, commit, events_on, memory_bus, message, release, work_off
from support.signing import ANA, EVE, cleaning, entry, key_file, new_key, signed
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import ConfigError
from tidegate.events import (
    CleaningRefused,
    Event,
    LockHold,
    VacuumFinished,
    VacuumKind,
    WritesAborted,
)
from tidegate.events.message import Message
from tidegate.events.signature import SIGNATURE_HEADER
from tidegate.ops.doctor.finding import Check
from tidegate.ops.doctor.local import check_signatures
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import assemble
from tidegate.service.bridge_assembly import metastore_bridge
from tidegate.service.settings import Settings

BEN = new_key()
FACTS = ["VacuumFinished", "LockReleased", "WritesAborted"]


def with_signature_of(event: Event, other: Event) -> Message:
    return message(event)._replace(headers=signed(other, BEN).headers)


def deployment(folder: Path, *, key: Path | None, required: bool = True) -> Settings:
    security = {
        "require_signatures": required,
        "sign_with": key,
        "keys": [
            entry(ANA, "coordinator", commands=["TaskIssued", "CleaningReleased"]),
            entry(BEN, "bridge", commands=FACTS, tables=["lake.sales.*"], locations=["/lake"]),
            entry(EVE, "eve", commands=["Restore*"]),
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
    found = events_on(bus, "tidegate.outcomes")
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
    (request,) = bus.records("tidegate.commands")

    assert SIGNATURE_HEADER in dict(request.headers)


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

    found = Check("signatures", partial(check_signatures, deployment(tmp_path, key=file))).run()
    assert found.state == "fail"
    assert f"chmod 600 {file}" in found.seen
