"""The calls that upstream writers and people make."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from pydantic import ValidationError

from tidegate.errors import ConfigError, DeliveryError, InvalidEventError, Receipt, TidegateError
from tidegate.errors.validation import validation_message
from tidegate.events import (
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningUndoRequested,
    CommitCompleted,
    CommitCondemned,
    Event,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    Request,
    RestoreApproved,
    RestoreDeclined,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
    TableType,
    VacuumFinished,
    VacuumKind,
    WithdrawalRequested,
)
from tidegate.events.topics import DEFAULT_PREFIX, topic_of
from tidegate.events.wire import Message
from tidegate.hive_metastore import MetastoreSettings
from tidegate.publisher.checks import check_publishable, error_of_batch
from tidegate.publisher.delivery import ConfirmedProducer
from tidegate.publisher.holds import holds_of
from tidegate.publisher.tracing import trace_injector
from tidegate.publisher.watch import OutcomeWatch
from tidegate.registry import RegistrySettings, wire_for
from tidegate.signatures import SigningKey, signer
from tidegate.signatures.tokens import Sign, unsigned

log = logging.getLogger(__name__)


class Publisher:
    """Publishes events; every call returns where the broker stored them, or raises.

    All calls raise `DeliveryError` if the broker does not confirm. Before anything is sent they
    raise `InvalidEventError` (a `ValueError`) for an invalid value, and for a vacuum whose fields
    are not in Hive's form or contradict each other. Safe to share between threads. An exception
    that a signal handler raises (Ctrl-C, a time limit) may leave any call: what that call sent may
    be stored, and the publisher works on.
    """

    def __init__(  # noqa: PLR0913 - settings, all by name
        self,
        bootstrap_servers: str | None = None,
        *,
        source: str,
        prefix: str = DEFAULT_PREFIX,
        config: Mapping[str, str | int | bool] | None = None,
        registry: RegistrySettings | str | None = None,
        traces: bool = False,
        sign_with: str | os.PathLike[str] | None = None,
    ) -> None:
        """Create a publisher.

        With a schema registry a call also raises `TransientError` if the registry can't be reached,
        and `StopService` if it rejects the schema, before anything is sent.

        Args:
            bootstrap_servers: The brokers as host:port; else `bootstrap.servers` in `config`, else
                the environment variable KAFKA_BOOTSTRAP_SERVERS.
            source: The name of the application, for people.
            prefix: The prefix of the deployment's topics.
            config: librdkafka's settings (security, timeouts).
            registry: A schema registry's address or settings; messages are then in the Confluent
                wire format.
            traces: Whether messages carry the caller's OpenTelemetry context (the extra `otel`).
            sign_with: The file of the private key (`tidegate keys new`): it signs requests, vacuums
                and ends of locks.

        Raises:
            ConfigError: no broker is configured, a setting is invalid, or the key can't be read.
        """
        self._with_trace = trace_injector() if traces else None
        self._config = _with_servers(dict(config or {}), bootstrap_servers)
        self._producer = ConfirmedProducer(self._config)
        with _in_one_line("registry", ConfigError):
            settings = RegistrySettings(url=registry) if isinstance(registry, str) else registry
        self._wire = wire_for(settings)
        self._source = source
        self._prefix = prefix
        self._sign: Sign = unsigned
        if sign_with is not None:
            key = SigningKey.read(Path(sign_with))
            self._sign = signer(key, self._producer.cluster_id)
        self._topics: dict[type[Event], str] = {}

    def publish(self, *events: Event) -> list[Receipt]:
        """Publish events and wait until all are confirmed. The receipts are in their order.

        Nothing is sent where one of them would be refused by the service that it is for: the
        `InvalidEventError` names it. The `results` of a `DeliveryError` have what became of each.
        """
        for number, event in enumerate(events, 1):
            try:
                check_publishable(event)
            except InvalidEventError as error:
                if len(events) == 1:
                    raise
                raise InvalidEventError(
                    f"event {number} of {len(events)} ({event.event_id}): {error};"
                    " none of them was sent"
                ) from error
        try:
            receipts = self._producer.send([self._message(event) for event in events])
        except DeliveryError as error:
            raise error_of_batch(error, events) from None
        return [
            receipt._replace(event_id=event.event_id)
            for receipt, event in zip(receipts, events, strict=True)
        ]

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
        """Publish that an instant was completed on a Hudi table."""
        fields = _given(locals()) | {"extra_metadata": dict(extra_metadata or {})}
        return self._publish_one(CommitCompleted, fields)

    def commit_latest(self, *, table: str, location: str | os.PathLike[str]) -> Receipt:
        """Publish the commit that completed last on a Hudi table, as its timeline has it.

        Where several jobs write the table, that may be another job's: use `hudi_commits`.

        Args:
            table: The table as catalog.database.table.
            location: Absolute path or URI of its root directory. S3, GCS, Azure and HDFS need
                their extra (`[s3]`).

        Raises:
            NoSuchTable: there is no Hudi table.
            InvalidEventError: the name or the location is invalid, or no write has completed.
            FormatError: a file of the timeline is malformed.
        """
        from tidegate.publisher.timelines import checked, latest_commit  # noqa: PLC0415 - most need it not

        name, where = checked(table, location)
        return self.publish(latest_commit(name, where, self._source))[0]

    @contextmanager
    def hudi_commits(
        self, *, table: str, location: str | os.PathLike[str]
    ) -> Generator[list[CommitCompleted]]:
        """Publish the commits that complete on a Hudi table inside a `with` block, at its end.

            with publisher.hudi_commits(table="lake.sales.orders", location=location) as commits:
                orders.write.format("hudi").options(**options).mode("append").save(location)
            print(commits[0].instant)

        The list has them after the block, in the order of their completion. A commit that another
        job completed meanwhile is among them: publishing a commit twice is safe. Where the block
        raises, the commits that did complete are published and listed nevertheless.

        Args:
            table: The table as catalog.database.table; the block may create it.
            location: As in `commit_latest`.

        Raises:
            NoSuchTable: there is no Hudi table at the end of the block.
            InvalidEventError: the table's name or the location is invalid.
            FormatError: a file of the timeline is malformed.
        """
        from tidegate.publisher.timelines import checked, completed_since, completed_writes  # noqa: PLC0415 - most need it not

        name, where = checked(table, location)
        known = completed_writes(where)
        commits: list[CommitCompleted] = []
        try:
            yield commits
        except BaseException:
            try:
                commits += completed_since(known, name, where, self._source)
                self.publish(*commits)
            except TidegateError as error:  # the block's own error is the one to raise
                log.warning("the commits of %s are not published: %s", name, error)
            raise
        commits += completed_since(known, name, where, self._source)
        if not commits:
            log.warning("no write of %s completed inside the block at %s", name, where)
        self.publish(*commits)

    def commit_condemned(self, *, table: str, location: str, instant: str, reason: str) -> Receipt:
        """Publish that a commit of this application is bad.

        By itself that changes no table: by the settings the plan of a restore to the savepoint
        before it is published, or the restore itself once a person has approved it.
        """
        return self._publish_one(CommitCondemned, _given(locals()))

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
        locks: Sequence[LockHold | Mapping[str, Any]] = (),
        open_transactions: Sequence[int] = (),
        own_transaction_id: int | None = None,
        partition: str | None = None,
        metastore: MetastoreSettings | str | None = None,
    ) -> Receipt:
        """Publish that a compaction of a Hive ACID table (a vacuum) became visible.

        `locks` and `open_transactions` are those at that time: their readers may still read the
        directories that the compaction replaced. With `metastore` (its settings, or its address)
        the publisher reads them from the Metastore now, and `tidegate bridge metastore` publishes
        their ends. So call this once the compaction's result is visible to readers: a reader that
        starts later does not need the replaced directories, and a reader that started earlier has
        an open transaction or a lock, or has ended. The locks are read before the transactions, so
        that the transaction of every lock that is still held is listed.

        Raises:
            ConfigError: the table is of another catalog than the Metastore, whose bridge would
                never release it; or thriftpy2 is not installed.
            TransientError: the Metastore did not answer; nothing was published.
        """
        fields = _given(locals())
        where = fields.pop("metastore")
        if where is not None:
            with _in_one_line("metastore or locks", ConfigError):
                fields |= holds_of(fields, where)
        return self._publish_one(VacuumFinished, fields)

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
        """Publish that a lock or a transaction ended on this table."""
        return self._publish_one(LockReleased, _given(locals()))

    def request_savepoint(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        requested_by: str,
        instant: str | None = None,
        comment: str = "",
        lifetime_seconds: int | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """Request a savepoint on an instant, by default the newest completed one.

        With a lifetime its removal is requested when that has ended; else it is kept until a person
        has it removed. `request_id` is as in `request_restore`.
        """
        return self._publish_request(SavepointRequested, _given(locals()))

    def request_savepoint_removal(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        instant: str,
        requested_by: str,
        reason: str,
        request_id: str | None = None,
    ) -> Receipt:
        """Request the removal of a savepoint of any origin. Hudi may then clean its files.

        `request_id` is as in `request_restore`.
        """
        return self._publish_request(SavepointRemovalRequested, _given(locals()))

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
        seen_up_to: str | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """Request a restore, which destroys every commit after the savepoint.

        Args:
            table: The table as catalog.database.table.
            location: Absolute path or URI of its root directory.
            savepoint: The instant of the savepoint to restore to.
            requested_by: Who asks, for the audit trail.
            reason: Why, for the audit trail.
            plan_only: Only publish the plan.
            expected_plan: The id of the plan that was read; any other is refused.
            seen_up_to: The latest instant known to the requester; a commit completed after it is
                never destroyed by this request.
            request_id: The request's id, a word of up to 100 characters; by default a new UUID. The
                same id twice is one request: after a `DeliveryError`, repeat the call with the id
                that it names.
        """
        return self._publish_request(RestoreRequested, _given(locals()))

    def approve_restore(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        request: str,
        plan_id: str,
        approved_by: str,
        reason: str,
        approval_id: str | None = None,
    ) -> Receipt:
        """Approve a restore that another person requested, as it was planned.

        Args:
            table: The table as catalog.database.table.
            location: Absolute path or URI of its root directory, as in the request.
            request: The id of the request.
            plan_id: The id of the plan that was read; any other is refused.
            approved_by: Who approves; not who asked.
            reason: Why, for the audit trail.
            approval_id: The approval's own id, as `request_id` in `request_restore`.
        """
        fields = _given(locals())
        fields["request_id"] = fields.pop("approval_id")
        fields["caused_by"] = request  # so that a chain of causes has both
        return self._publish_request(RestoreApproved, fields)

    def withdraw(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        request: str,
        requested_by: str,
        reason: str,
        as_approver: bool = False,
        request_id: str | None = None,
    ) -> Receipt:
        """Withdraw the request with the id `request`, unless it has begun to change the table.

        `as_approver` rejects a restore that another person requested. `location` is as in the
        request; `request_id` is the withdrawal's own, as in `request_restore`.
        """
        fields = _given(locals()) | {"caused_by": request}
        kind = RestoreDeclined if fields.pop("as_approver", False) else WithdrawalRequested
        return self._publish_request(kind, fields)

    def request_undo(  # noqa: PLR0913 - an event's fields, all by name
        self,
        *,
        table: str,
        location: str,
        cleaning: str,
        requested_by: str,
        reason: str,
        partition: str | None = None,
        plan_only: bool = False,
        request_id: str | None = None,
    ) -> Receipt:
        """Request that what a cleaning moved into quarantine is put back.

        `cleaning` is the id of its CleaningReleased; `request_id` is as in `request_restore`.
        """
        return self._publish_request(CleaningUndoRequested, _given(locals()))

    def hold_cleaning(
        self, *, table: str, requested_by: str, reason: str, request_id: str | None = None
    ) -> Receipt:
        """Request that nothing of a table is cleaned until `release_hold`.

        Once CleaningHeld has answered, no cleaning of the table begins.
        """
        return self._publish_request(CleaningHoldRequested, _given(locals()))

    def release_hold(
        self, *, table: str, requested_by: str, reason: str, request_id: str | None = None
    ) -> Receipt:
        """Request that a table is cleaned again, and what was asked for meanwhile."""
        return self._publish_request(CleaningHoldRemovalRequested, _given(locals()))

    def watch(self, table: str, *, from_start: bool = False) -> OutcomeWatch:
        """Watch a table's outcomes. Begin before you publish: `wait_for` then misses nothing.

        With `from_start`, outcomes from before count too: for what is published again.

        Raises:
            ConfigError: the table's name is invalid, or the topics don't exist.
            TransientError: no broker answers.
        """
        return OutcomeWatch(self._config, self._prefix, self._wire, table, from_start=from_start)

    def close(self) -> None:
        """Wait for messages that other threads are sending."""
        self._producer.close()

    def __enter__(self) -> Self:
        """Use the publisher in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _publish_request(self, kind: type[Request], fields: dict[str, Any]) -> Receipt:
        request_id = fields.pop("request_id")
        # made before the first attempt, so that every attempt has the same
        own_id = str(uuid4()) if request_id is None else request_id
        return self._publish_one(kind, fields | {"event_id": own_id})

    def _publish_one(self, kind: type[Event], fields: dict[str, Any]) -> Receipt:
        complete = {**fields, "occurred_at": datetime.now(UTC), "source": self._source}
        with _in_one_line(f"invalid {kind.__name__}", InvalidEventError):
            event = kind.model_validate(complete)
        return self.publish(event)[0]

    def _message(self, event: Event) -> Message:
        kind = type(event)
        topic = self._topics.get(kind)
        if topic is None:
            topic = self._topics[kind] = topic_of(kind).name(self._prefix)
        message = self._sign(event, self._wire.serialize(event, topic))
        return self._with_trace(message) if self._with_trace else message


@contextmanager
def _in_one_line(subject: str, error_type: type[TidegateError]) -> Generator[None]:
    """Raise pydantic's errors as ours."""
    try:
        yield
    except ValidationError as error:
        raise error_type(f"{subject}: {validation_message(error)}") from None


def _with_servers(
    config: dict[str, str | int | bool], servers: str | None
) -> dict[str, str | int | bool]:
    named = servers or config.get("bootstrap.servers") or os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if not isinstance(named, str) or not named:
        raise ConfigError(
            "no broker: give bootstrap_servers, or set KAFKA_BOOTSTRAP_SERVERS, to host:port,..."
        )
    return {**config, "bootstrap.servers": named}


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
