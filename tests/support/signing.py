"""Keys, signed messages, and an executor that records what it was asked to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from joserfc.jwk import OKPKey

from support.memory_bus import MemoryBus
from support.samples import NOON, Tableless, events_on, memory_bus, message, task_of, work_off
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import (
    Answer,
    CleaningReleased,
    Command,
    Event,
    Outcome,
    RestoreFailed,
    RestoreRequested,
    SavepointRequested,
    VacuumKind,
)
from tidegate.events.signature import KeyRole
from tidegate.events.topics import CARRIED
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.authorization import Authorization, TrustedKey
from tidegate.runtime.bus import Bus
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import trusted_keys
from tidegate.service.settings import Settings
from tidegate.signatures import PublicKey, SigningKey, signer
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim


def new_key() -> SigningKey:
    return SigningKey(OKPKey.generate_key("Ed25519").as_pem(private=True).decode())


ANA, EVE, COORDINATOR = new_key(), new_key(), new_key()
SERVICES = TrustedKey(
    "services", PublicKey(COORDINATOR.public_pem), (KeyRole.COORDINATOR, KeyRole.WORKER)
)


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
    sign = signer(key, lambda: cluster, lambda: datetime.now(UTC) - ago)
    if not isinstance(command, Command) or type(command) not in CARRIED:
        return sign(command, message(command, prefix))
    inner = sign(command, Wire().serialize(command, f"{prefix}.tasks"))
    return tasked(command, inner, prefix)


def tasked(command: Command, inner: Message, prefix: str = "tidegate") -> Message:
    """The message of the coordinator's task that carries a command as it was published."""
    task = task_of(command, inner=inner, at=datetime.now(UTC))
    return signer(COORDINATOR, lambda: "memory")(task, message(task, prefix))


@dataclass
class Obeying(Tableless):
    """An executor that obeys every command, and records it."""

    name: ClassVar[str] = "restorer"
    consumes: ClassVar[tuple[type[Command], ...]] = (
        RestoreRequested,
        SavepointRequested,
        CleaningReleased,
    )
    obeyed: list[str] = field(default_factory=list[str])

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
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
    """The answers to messages, of the coordinator and of an executor that obeys every command."""
    bus = memory_bus()
    bus.send(list(messages))
    work(deployment, bus)
    assert bus.records("tidegate.dead-letters") == []
    return [event for event in events_on(bus, "tidegate.outcomes") if isinstance(event, Answer)]


def work(deployment: Settings, bus: MemoryBus, obeying: Obeying | None = None) -> None:
    """Let a coordinator and an executor work off what there is."""
    coordinator, executor = services(deployment, bus, obeying or Obeying())
    while coordinator.step(0):
        pass
    coordinator.close()
    work_off(executor)
    executor.close()


def services(
    deployment: Settings, bus: Bus, obeying: Obeying, prefix: str = "tidegate"
) -> tuple[CoordinatorLoop, ExecutorLoop]:
    """A coordinator and an executor, with a key that they trust besides those of the settings."""
    cluster, required = bus.cluster_id(), deployment.security.require_signatures
    keys = trusted_keys(deployment)
    trusting = Authorization(
        [*keys, SERVICES] if required or keys else (),
        cluster,
        required=required,
        restores_by=deployment.restores.requested_by,
    )
    sign = signer(COORDINATOR, lambda: cluster)
    coordinator = CoordinatorLoop(ReaderGate(), bus, prefix, authorization=trusting, sign=sign)
    return coordinator, ExecutorLoop(obeying, bus, prefix, authorization=trusting, sign=sign)


def reason_of(deployment: Settings, *messages: Message) -> str:
    """The reason of the only answer; empty if the command was obeyed."""
    (outcome,) = outcomes(deployment, *messages)
    return str(getattr(outcome, "reason", ""))


def key_file(folder: Path, key: SigningKey = ANA) -> Path:
    file = folder / "key.pem"
    file.write_bytes(key.jwk.as_pem(private=True))
    file.chmod(0o600)
    return file
