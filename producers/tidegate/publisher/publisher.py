"""The calls that upstream writers and people make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tidegate.errors import ConfigError
from tidegate.events import (
    CommitCompleted,
    Event,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    RestoreRequested,
    SavepointRequested,
    TableType,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.message import Message
from tidegate.events.topics import DEFAULT_PREFIX, topic_of
from tidegate.publisher.delivery import ConfirmedProducer, Receipt
from tidegate.registry import RegistrySettings, wire_for


class Publisher:
    """Publishes events; every call returns where the broker put them, or raises.

    All calls raise `DeliveryError` when the broker does not confirm, and pydantic's
    `ValidationError` when a value can't be right; nothing was sent then. Safe to share between
    threads.
    """

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        *,
        said_by: str,
        prefix: str = DEFAULT_PREFIX,
        config: Mapping[str, str | int | bool] | None = None,
        registry: RegistrySettings | str | None = None,
    ) -> None:
        """Connect. `config` holds further librdkafka settings (security, timeouts).

        With a schema registry (its address, or its settings) events go out in the Confluent wire
        format; a call then also raises `TransientError` if the registry can't be reached, and
        `RegistryRefusedError` if it refuses the schema. Nothing was sent then.

        Raises:
            ConfigError: no broker is named, neither here nor in KAFKA_BOOTSTRAP_SERVERS; or the
                registry's settings can't be.
        """
        servers = bootstrap_servers or os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            raise ConfigError("name a broker: bootstrap_servers or KAFKA_BOOTSTRAP_SERVERS")
        self._producer = ConfirmedProducer({**(config or {}), "bootstrap.servers": servers})
        named = RegistrySettings(url=registry) if isinstance(registry, str) else registry
        self._wire = wire_for(named)
        self._said_by = said_by
        self._prefix = prefix
        self._topics: dict[type[Event], str] = {}

    def publish(self, *events: Event) -> list[Receipt]:
        """Publish ready-made events, all or some of them confirmed together."""
        return self._producer.send([self._message(event) for event in events])

    def commit(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        instant: str,
        action: str = "commit",
        completion_time: str | None = None,
        operation: str | None = None,
        table_type: TableType | str = TableType.COPY_ON_WRITE,
        files_written: int | None = None,
        records_written: int | None = None,
        bytes_written: int | None = None,
        extra_metadata: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Say that an instant was completed on a Hudi table."""
        fields = _given(locals()) | {"extra_metadata": dict(extra_metadata or {})}
        return self._say(CommitCompleted, fields)

    def vacuum_finished(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        kind: VacuumKind | str,
        directories: Sequence[str],
        min_write_id: int,
        max_write_id: int,
        valid_write_ids: str,
        own_lock_id: int,
        locks: Sequence[LockHold | Mapping[str, Any]],
        open_transactions: Sequence[int] = (),
        own_transaction_id: int | None = None,
        partition: str | None = None,
    ) -> Receipt:
        """Say that a compaction of a Hive ACID table became visible, and who may still read."""
        return self._say(VacuumFinished, _given(locals()))

    def lock_released(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        lock_id: int | None = None,
        transaction_id: int | None = None,
        partition: str | None = None,
        lock_type: LockType | str | None = None,
        reason: ReleaseReason | str = ReleaseReason.UNLOCKED,
    ) -> Receipt:
        """Say that a lock or a transaction ended on this table."""
        return self._say(LockReleased, _given(locals()))

    def request_savepoint(
        self,
        *,
        table: str,
        location: str,
        requested_by: str,
        instant: str | None = None,
        comment: str = "",
    ) -> Receipt:
        """Ask for a savepoint, on the newest completed instant where none is named."""
        return self._say(SavepointRequested, _given(locals()))

    def request_restore(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        savepoint: str,
        requested_by: str,
        reason: str,
        plan_only: bool = False,
        expected_plan: str | None = None,
    ) -> Receipt:
        """Ask for a restore: every commit after the savepoint will be destroyed."""
        return self._say(RestoreRequested, _given(locals()))

    def close(self) -> None:
        """Wait for what other threads are still sending."""
        self._producer.close()

    def __enter__(self) -> Self:
        """Enter a block at whose end the publisher is closed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _say(self, kind: type[Event], fields: dict[str, Any]) -> Receipt:
        told = {**fields, "occurred_at": datetime.now(UTC), "said_by": self._said_by}
        return self.publish(kind.model_validate(told))[0]

    def _message(self, event: Event) -> Message:
        kind = type(event)
        topic = self._topics.get(kind)
        if topic is None:
            topic = self._topics[kind] = topic_of(kind).name(self._prefix)
        return self._wire.seal(event, topic)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
