"""Where a person's name is stored or shown, it is the signer's; an unsigned one is marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.hudi_tables import at, four_commits, savepoint_request, ticking, warehouse_over
from support.samples import NOON, events_on, memory_bus, message
from support.signing import EVE, Obeying, entry, restore, services, settings, signed
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    CleaningHoldRequested,
    Command,
    RestoreDeclined,
    RestoreRejected,
    WithdrawalRequested,
)
from tidegate.events.signature import KeyRole
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.ops.waiting import held_line, held_tables
from tidegate.runtime.authorization import TrustedKey
from tidegate.runtime.protocols import Published
from tidegate.savepoints.executor import SavepointWriter
from tidegate.signatures import PublicKey

if TYPE_CHECKING:
    from tidegate.coordinator.rows.store import Store
    from tidegate.publisher import Message

ORDERS = "lake.sales.orders"
DEPLOYMENT = settings(
    entry(), entry(EVE, "eve", roles=["requester", "approver", "holder"]), required=False
)


def decided(*messages: Message) -> tuple[Store, list[object]]:
    """The coordinator's rows as another process reads them, and the outcomes."""
    bus = memory_bus(1)
    bus.send(list(messages))
    first, _ = services(DEPLOYMENT, bus, Obeying())
    while first.step(0):
        pass
    first.close()
    coordinator, _ = services(DEPLOYMENT, bus, Obeying())
    while coordinator.step(0):
        pass
    return coordinator._owned[0].store, list(events_on(bus, "tidegate.outcomes"))


def hold() -> CleaningHoldRequested:
    return CleaningHoldRequested(
        event_id="h-1",
        table=ORDERS,
        occurred_at=NOON,
        source="cli",
        requested_by="root",
        reason="an audit",
    )


@pytest.mark.parametrize(
    ("sent", "shown", "signed_by"),
    [
        pytest.param(signed(hold(), EVE), "eve (as root)", "eve", id="signed"),
        pytest.param(message(hold()), "root, unsigned", None, id="unsigned"),
    ],
)
def test_a_hold_is_that_of_its_signer(sent: Message, shown: str, signed_by: str | None) -> None:
    store, _ = decided(sent)
    [row] = held_tables(store)

    assert (row["requested_by"], row["signed_by"]) == ("root", signed_by)
    line = held_line(row)
    assert (line.startswith(f"{ORDERS}  held since "), line.endswith(f" by {shown}: an audit")) == (
        True,
        True,
    )


@pytest.mark.parametrize("kind", [WithdrawalRequested, RestoreDeclined])
@pytest.mark.parametrize(
    ("send", "shown"),
    [
        pytest.param(lambda it: signed(it, EVE), "eve", id="signed"),
        pytest.param(message, "root, unsigned,", id="unsigned"),
    ],
)
def test_a_request_that_was_withdrawn_names_who_did(
    kind: type[Command], send: object, shown: str
) -> None:
    first, second = (restore(event_id=name) for name in ("r-1", "r-2"))
    asked = {"requested_by": "root", "reason": "a mistake", "request": "r-2", "event_id": "w-1"}
    back = kind.about(second, source="cli", occurred_at=NOON, **asked)
    assert callable(send)
    _, outcomes = decided(message(first), message(second), send(back))

    [rejected] = (it for it in outcomes if isinstance(it, RestoreRejected))
    verb = "withdrew" if kind is WithdrawalRequested else "rejected"
    assert rejected.message == f"{shown} {verb} it: a mistake"


def test_a_savepoint_names_its_signer_on_the_timeline(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 6)
    command = savepoint_request(table, at(2))
    eve = TrustedKey("eve", PublicKey(EVE.public_pem), (KeyRole.REQUESTER,))
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), ticking())

    [_] = writer.execute(command, grounds=[Published(command, NOON, eve)])

    found = SavepointMetadata.decode((table.timeline / f"{at(2)}.savepoint").read_bytes())
    assert (found.by, command.requested_by) == ("eve", "ada")
