"""Where a person's name is stored or shown, it is the signer's; an unsigned one is marked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args, get_type_hints

import pytest

from support.hudi_tables import at, four_commits, savepoint_request, ticking, warehouse_over
from support.samples import NOON, events_on, memory_bus, message
from support.savepoint_removals import removal
from support.signing import EVE, Obeying, entry, restore, services, settings, signed
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    CleaningHoldRequested,
    Command,
    Event,
    RestoreDeclined,
    RestoreRejected,
    WithdrawalRequested,
)
from tidegate.events.fields import Name
from tidegate.events.signature import KeyRole, Proof
from tidegate.events.topics import EVENT_TYPES
from tidegate.ops.summary import sentence
from tidegate.ops.waiting import held_line, held_tables, removable_line
from tidegate.runtime.authorization import TrustedKey
from tidegate.runtime.protocols import Published
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.listing import savepoints_of
from tidegate.signatures import PublicKey, SigningKey

if TYPE_CHECKING:
    from tidegate.coordinator.rows.store import Store
    from tidegate.publisher import Message

ORDERS = "lake.sales.orders"
DEPLOYMENT = settings(
    entry(), entry(EVE, "eve", roles=["requester", "approver", "holder"]), required=False
)


SIGNED_AS: Final = {"requested_by": "signed_by", "approved_by": "approval_signed_by"}
"""By the field that names a person, the one that names the signer."""
NO_PERSON: Final = {
    *("source", "published_by"),  # an application or a service
    *SIGNED_AS.values(),  # proven
    *("caused_by", "replaced_by", "superseded_by"),  # an event, or directories
    "made_by",  # as the timeline has it, where the savepoint writer marks it
}


def persons_in(kind: type[Event]) -> Iterator[str]:
    """The fields that name a person: they are a `Name`, or are called so."""
    for field, hint in get_type_hints(kind, include_extras=True).items():
        is_name = field.endswith("_by") or Name in (hint, *get_args(hint))
        if field in kind.model_fields and is_name and field not in NO_PERSON:
            yield field


PERSONS: Final = [(kind, field) for kind in EVENT_TYPES.values() for field in persons_in(kind)]


class SomethingSkipped(Event, frozen=True):
    """An event that another version may add."""

    skipped_by: str
    holder: Name | None = None


def said(kind: type[Event], fields: dict[str, str], proof: Proof | None = None) -> str:
    """The sentence of an event's example with other values, without a signature."""
    text = files("tidegate.events").joinpath("examples", f"{kind.__name__}.json").read_text("utf-8")
    unsigned = dict.fromkeys(set(SIGNED_AS.values()) & kind.model_fields.keys())
    event = kind.model_validate_json(text).model_copy(update=unsigned | fields)
    return sentence(event, proof)


def test_the_names_of_persons_in_events_are_found() -> None:
    assert set(persons_in(SomethingSkipped)) == {"skipped_by", "holder"}
    assert {field for _, field in PERSONS} == SIGNED_AS.keys()


@pytest.mark.parametrize(("kind", "field"), PERSONS)
def test_the_sentence_of_every_event_marks_a_name_that_no_signature_proves(
    kind: type[Event], field: str
) -> None:
    shown = said(kind, {field: "zora"})

    assert (shown.count("zora (unsigned)"), shown.count("zora")) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "field"),
    [it for it in PERSONS if issubclass(it[0], Command) or SIGNED_AS[it[1]] in it[0].model_fields],
)
def test_the_sentence_of_every_event_names_the_signer(kind: type[Event], field: str) -> None:
    signer = {} if issubclass(kind, Command) else {SIGNED_AS[field]: "eve"}
    proof = Proof("eve") if issubclass(kind, Command) else None

    shown = said(kind, {field: "zora"} | signer, proof)

    assert (shown.count("eve (as zora)"), shown.count("zora")) == (1, 1)


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
        pytest.param(message(hold()), "root (unsigned)", None, id="unsigned"),
    ],
)
def test_a_hold_is_that_of_its_signer(sent: Message, shown: str, signed_by: str | None) -> None:
    store, _ = decided(sent)
    [row] = held_tables(store)

    assert (row["requested_by"], row["signed_by"]) == ("root", signed_by)
    assert removable_line(row) == (
        f"{held_line(row)}; to remove it: tidegate hold remove {ORDERS} --reason 'it is done'"
    )
    line = held_line(row)
    assert (line.startswith(f"{ORDERS}  held since "), line.endswith(f" by {shown}: an audit")) == (
        True,
        True,
    )


@pytest.mark.parametrize("kind", [WithdrawalRequested, RestoreDeclined])
@pytest.mark.parametrize(
    ("send", "shown"),
    [
        pytest.param(lambda it: signed(it, EVE), "eve (as root)", id="signed"),
        pytest.param(message, "root (unsigned)", id="unsigned"),
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


@pytest.mark.parametrize(
    ("key", "shown"), [(EVE, "eve (as ada)"), (None, "ada (unsigned)")], ids=["signed", "unsigned"]
)
def test_a_savepoint_names_who_asked_for_it_on_the_timeline(
    tmp_path: Path, key: SigningKey | None, shown: str
) -> None:
    table = four_commits(tmp_path / "orders", 6)
    command = savepoint_request(table, at(2))
    eve = TrustedKey("eve", PublicKey(key.public_pem), (KeyRole.REQUESTER,)) if key else None
    warehouse = warehouse_over(tmp_path)
    writer = SavepointWriter(warehouse, ThreadMap(), ticking())

    [_] = writer.execute(command, grounds=[Published(command, NOON, eve)])

    [listed] = savepoints_of(warehouse, table.location)
    assert (listed["requested_by"], command.requested_by) == (shown, "ada")
    [removed] = writer.execute(removal(table, 2))
    assert f" of {shown}, which protected " in sentence(removed)


def test_a_savepoint_that_another_person_wants_too_says_for_whom_it_is_kept(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 6)
    warehouse = warehouse_over(tmp_path)
    writer = SavepointWriter(warehouse, ThreadMap(), ticking())
    for person, days in (("ada", 1), ("zora", 7)):
        lifetime = {"lifetime_seconds": days * 86_400, "occurred_at": datetime.now(UTC)}
        command = savepoint_request(table, at(2), requested_by=person, **lifetime)
        [_] = writer.execute(command, grounds=[Published(command, NOON)])

    [listed] = savepoints_of(warehouse, table.location)

    assert (listed["requested_by"], listed["kept_for"]) == ("ada (unsigned)", "zora (unsigned)")
