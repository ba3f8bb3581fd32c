"""Keys, signed messages, and an executor that records what it was asked to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from joserfc.jwk import OKPKey

from support.samples import NOON, Tableless, events_on, memory_bus, message, task_of, work_off
from tidegate.events import (
    Answer,
    CleaningReleased,
    Command,
    Event,
    Outcome,
    RestoreFailed,
    RestoreRejected,
    RestoreRequested,
    SavepointRequested,
    VacuumKind,
)
from tidegate.events.catalogue import CARRIED
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings
from tidegate.signatures import Signer, SigningKey
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed

COMMANDS = "tidegate.commands"


def new_key() -> SigningKey:
    return SigningKey(OKPKey.generate_key("Ed25519").as_pem(private=True).decode())


ANA, EVE = new_key(), new_key()


def entry(key: SigningKey = ANA, name: str = "ana", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    fixed = {"name": name, "public_key": key.public_pem, "roles": ["requester"]}
    return fixed | more


def settings(
    *keys: dict[str, Any], required: bool = True, restores_by: Sequence[str] = ("*",)
) -> Settings:
    security = {"require_signatures": required, "keys": list(keys)}
    return Settings.model_validate(
        {"security": security, "restores": {"requested_by": restores_by}}
    )


def restore(table: str = "lake.sales.orders", **more: Any) -> RestoreRequested:  # noqa: ANN401
    fields = {
        "event_id": "r-1",
        "table": table,
        "location": "/lake/orders",
        "source": "tidegate-cli",
        "occurred_at": NOON,
        "savepoint": "20261121041551845",
        "requested_by": "ana",
        "reason": "a bad load",
        "seen_up_to": "20261121041601557",
    }
    return RestoreRequested.model_validate(fields | more)


def cleaning() -> CleaningReleased:
    return CleaningReleased(
        table="lake.sales.orders",
        location="/lake/orders",
        source="coordinator",
        caused_by="vacuum-1",
        occurred_at=NOON,
        kind=VacuumKind.MAJOR,
        directories=("base_5",),
        min_write_id=1,
        max_write_id=5,
        valid_write_ids="sales.orders:5:9223372036854775807::",
    )


def signed(
    command: Event,
    key: SigningKey = ANA,
    *,
    ago: timedelta = timedelta(),
    prefix: str = "tidegate",
    cluster: str = "memory",
) -> Message:
    """The message of an event, signed `ago` before now."""
    signer = Signer(key, lambda: cluster, lambda: datetime.now(UTC) - ago)
    if not isinstance(command, Command) or type(command) not in CARRIED:
        return signer.sign(command, message(command, prefix))
    inner = signer.sign(command, Wire().serialize(command, f"{prefix}.tasks"))
    task = task_of(command, inner=inner, at=datetime.now(UTC))
    return signer.sign(task, message(task, prefix))


@dataclass
class Obeying(Tableless):
    """An executor that obeys every command, and records it."""

    name: ClassVar[str] = "restorer"
    consumes: ClassVar[tuple[type[Command], ...]] = (
        RestoreRequested,
        SavepointRequested,
        CleaningReleased,
    )
    checks_past_outcomes: ClassVar[bool] = True
    obeyed: list[str] = field(default_factory=list[str])

    def is_answered(
        self,
        command: Command,  # noqa: ARG002 - the protocol's
        outcomes: Sequence[Outcome],
    ) -> bool:
        return any(isinstance(outcome, RestoreFailed | RestoreRejected) for outcome in outcomes)

    def execute(
        self,
        command: Command,
        claim: Unclaimed = NO_CLAIM,  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        self.obeyed.append(command.event_id)
        yield RestoreFailed.about(
            command,
            source=self.name,
            occurred_at=NOON,
            savepoint="20261121041551845",
            restore_instant="20261121041601557",
            message="obeyed",
        )


def outcomes(deployment: Settings, *messages: Message) -> list[Answer]:
    """The answers, in the order of the messages of a table."""
    bus = memory_bus()
    bus.send(list(messages))
    loop = ExecutorLoop(Obeying(), bus, authorization=authorization(deployment, "memory"))
    work_off(loop)
    loop.close()
    assert bus.records("tidegate.dead-letters") == []
    return [event for event in events_on(bus, "tidegate.outcomes") if isinstance(event, Answer)]


def reason_of(deployment: Settings, *messages: Message) -> str:
    """The reason of the only answer; empty if the command was obeyed."""
    (outcome,) = outcomes(deployment, *messages)
    return str(getattr(outcome, "reason", ""))


def key_file(folder: Path, key: SigningKey = ANA) -> Path:
    file = folder / "key.pem"
    file.write_bytes(key.jwk.as_pem(private=True))
    file.chmod(0o600)
    return file
