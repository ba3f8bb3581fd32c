"""Builds a service's loop from its name and the settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.second_source import SecondSource
from tidegate.cleaning.settings import CleaningSettings
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import lazy_session
from tidegate.coordinator.alarms.unknown_tables import UnknownTables
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.coordinator.subject import Subjects
from tidegate.errors import ConfigError
from tidegate.events.signature import KeyRole
from tidegate.hive_metastore.connection import interface
from tidegate.registry import wire_for
from tidegate.restores.executor import Restorer
from tidegate.restores.hudi_engine import EXTENSION, Session
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.authorization import Authorization, TrustedKey
from tidegate.runtime.bus import Bus
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import BROKER_RETRIES, TABLE_RETRIES, RetryPolicy
from tidegate.savepoints.executor import SavepointWriter
from tidegate.service.catalogue import COORDINATOR
from tidegate.service.settings import Settings
from tidegate.service.stores import (
    require_conditional_writes,
    require_kept,
    require_places,
    require_quarantine,
    require_stores,
    without_quarantine,
)
from tidegate.signatures import PublicKey, SigningKey, signer
from tidegate.signatures.tokens import Sign, unsigned
from tidegate.storage import normalise
from tidegate.tables.warehouse import Warehouse, WarehouseRoots
from tidegate.tables.warehouse.roots import every_spelling

if TYPE_CHECKING:
    from tidegate.monitoring.observed import ObservedService, ProcessMonitoring


class Loop(Protocol):
    """A running service: a member of its consumer group."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        ...

    def close(self) -> bool | None:
        """Leave the group. False: a command still runs, unacknowledged, on a daemon thread."""
        ...


def table_work(settings: Settings) -> tuple[Warehouse, SparkMap]:
    """What an executor works with: the tables it may change, and where it processes many files.

    Raises:
        ConfigError: no warehouse root is configured, or one is where no table can be changed.
    """
    roots = WarehouseRoots.of(*settings.warehouse.roots)
    require_stores(roots.roots)
    warehouse = Warehouse(roots, settings.warehouse.options)
    require_places(warehouse)
    spark = settings.spark
    session = lazy_session(spark.conf)
    return warehouse, SparkMap(session, spark.min_items, deadline=spark.job_seconds)


def restore_settings(settings: Settings) -> RestoreSettings:
    """The settings of restores; their rules have every spelling of the directories."""
    rules = (
        rule.model_copy(
            update={"locations": every_spelling(rule.locations, settings.warehouse.roots)}
        )
        for rule in settings.restores.rules
    )
    return settings.restores.model_copy(update={"rules": tuple(rules)})


def hudi_session(settings: Settings, session: Session) -> Session | None:
    """The Spark session for Hudi's own procedure; None if no rule selects it.

    Raises:
        ConfigError: Spark would not understand the call of it.
    """
    if not any(rule.engine == "hudi" for rule in settings.restores.rules):
        return None
    if EXTENSION not in settings.spark.conf.get("spark.sql.extensions", ""):
        raise ConfigError(
            'engine = "hudi" in [[restores.rules]] needs Hudi in the Spark session: set'
            f' "spark.sql.extensions" = "{EXTENSION}" and "spark.driver.extraClassPath" (the jar of'
            " Hudi's Spark bundle) in [spark.conf]"
        )
    return session


def cleaning_settings(settings: Settings, warehouse: Warehouse) -> CleaningSettings:
    """Whether cleanings delete or quarantine.

    Raises:
        ConfigError: something would be quarantined, and a root's store can't keep it for so long.
        TransientError: a store did not answer.
    """
    if settings.cleaning.may_quarantine:
        require_quarantine(warehouse, keep=settings.cleaning.longest)
    elif settings.cleaning.confirm_with != "nothing":  # what can't be confirmed is quarantined
        require_kept(warehouse, keep=settings.cleaning.longest)
    return settings.cleaning


def second_source(settings: Settings, warehouse: Warehouse) -> SecondSource:
    """What confirms a removal, besides the events.

    Raises:
        ConfigError: it has to be set, or is not to be had.
        TransientError: a store did not answer.
    """
    watched = settings.bridge.metastore
    chosen = settings.cleaning.confirm_with
    if chosen == "nothing":
        return SecondSource(believed=True)
    if chosen == "metastore" or (chosen is None and watched is not None):
        if watched is None:
            raise ConfigError(
                'cleaning.confirm_with is "metastore", and none is configured: set uri in'
                " [bridge.metastore]"
            )
        interface()  # a missing library shows now
        return SecondSource(watched, readers_lock_at_once=watched.readers_lock_at_once)
    if found := without_quarantine(warehouse):
        raise ConfigError(
            "nothing would confirm what the cleaner removes: no Metastore is configured, and"
            " object stores other than S3 with versions have no quarantine:"
            f" {', '.join(found)}. Set uri in"
            ' [bridge.metastore], or accept the risk with confirm_with = "nothing" in [cleaning]:'
            " every principal that may write to the vacuums topic can then have files deleted"
        )
    return SecondSource()


def limits(
    service: str, settings: Settings, usual: RetryPolicy
) -> tuple[RetryPolicy, DeadLetterLimit]:
    """A service's retries and its limit of dead letters; `usual` has the defaults."""
    configured = settings.services.limits_of(service)
    first, longest = configured.retries.first_wait_ms, configured.retries.longest_wait_ms
    retries = RetryPolicy(
        attempts=configured.retries.attempts or usual.attempts,
        first=first / 1000 if first else usual.first,
        longest=longest / 1000 if longest else usual.longest,
    )
    return retries, DeadLetterLimit(**configured.dead_letters.model_dump())


def instance_ids(settings: Settings, services: Iterable[str]) -> dict[str, str]:
    """By consumer group, as which static member a process joins; without those that it is not.

    Two services of one process have an id each, and so have two deployments on one cluster.
    """
    found: dict[str, str] = {}
    for name in services:
        instance = settings.services.limits_of(name).instance_id if name in SERVICES else None
        if instance is not None:
            group = f"{settings.topics.prefix}.{name}"
            found[group] = f"{group}.{instance}"
    return found


def _now() -> datetime:
    return datetime.now(UTC)


def _executor(
    make: Callable[[Settings, Warehouse, SparkMap], Executor],
    settings: Settings,
    bus: Bus,
    observed: ObservedService | None,
) -> Loop:
    from tidegate.runtime.executor.loop import ExecutorLoop  # noqa: PLC0415 - logs by an extra

    warehouse, parallel_map = table_work(settings)
    executor = make(settings, warehouse, parallel_map)
    if observed:
        executor, bus = observed.executor(executor), observed.bus(bus)
    retries, limit = limits(executor.name, settings, TABLE_RETRIES)
    return ExecutorLoop(
        executor,
        bus,
        settings.topics.prefix,
        threads=settings.services.threads,
        # the rest of the time is for leaving the group
        stop_seconds=0.8 * settings.services.stop_seconds,
        retries=retries,
        limit=limit,
        wire=wire_for(settings.registry),
        authorization=authorization(settings, bus.cluster_id()),
        sign=_signer(settings, KeyRole.WORKER, bus),
    )


def _savepoint_writer(settings: Settings, warehouse: Warehouse, files: SparkMap) -> SavepointWriter:
    return SavepointWriter(warehouse, files, _now, settings.savepoints)


def cleaner(settings: Settings, warehouse: Warehouse, files: SparkMap) -> Cleaner:
    """The cleaner with its rules and its second source.

    Raises:
        ConfigError, TransientError: as `cleaning_settings` and `second_source`.
    """
    # the roots were checked first: a store's fault is reported before its missing abilities
    rules = cleaning_settings(settings, warehouse)
    return Cleaner(warehouse, files, _now, rules, second_source(settings, warehouse))


def _restorer(settings: Settings, warehouse: Warehouse, files: SparkMap) -> Restorer:
    engine = hudi_session(settings, files.session)
    if settings.restores.hold_lock:
        require_conditional_writes(warehouse)
    return Restorer(warehouse, files, _now, restore_settings(settings), engine)


def authorization(settings: Settings, cluster: str) -> Authorization:
    """Whose events count on a Kafka cluster, by the settings.

    Raises:
        ConfigError: a key is not one, or is listed twice; or `joserfc` is not installed.
    """
    required, listed = settings.security.require_signatures, settings.restores.requested_by
    return Authorization(trusted_keys(settings), cluster, required=required, restores_by=listed)


def trusted_keys(settings: Settings) -> list[TrustedKey]:
    """The keys of the settings.

    Raises:
        ConfigError: a key is not one; or `joserfc` is not installed.
    """
    return [
        TrustedKey(
            public=PublicKey(key.public_key, f"the public key of {key.name}"),
            **key.model_dump(exclude={"public_key"}),
        )
        for key in settings.security.keys
    ]


def subjects(settings: Settings) -> Subjects:
    """Build the coordinator's subjects."""
    savepoints = SavepointSubject(settings.savepoints, restore_settings(settings), normalise)
    gate = ReaderGate(alarms=settings.alarms)
    return Subjects(UnknownTables(settings.alarms), gate, savepoints)


def _coordinator(settings: Settings, bus: Bus, observed: ObservedService | None) -> Loop:
    decides = subjects(settings)
    if observed:
        decides = Subjects(*map(observed.subject, decides.parts))
        bus = observed.bus(bus)
    retries, limit = limits(COORDINATOR, settings, BROKER_RETRIES)
    prefix, wire = settings.topics.prefix, wire_for(settings.registry)
    return CoordinatorLoop(
        decides,
        bus,
        prefix,
        retries=retries,
        limit=limit,
        wire=wire,
        sign=_signer(settings, KeyRole.COORDINATOR, bus),
        authorization=authorization(settings, bus.cluster_id()),
    )


def _signer(settings: Settings, role: KeyRole, bus: Bus) -> Sign:
    """How a service signs its messages; without a key it does not. Raises as `own_key`."""
    key, cluster = own_key(settings, role), bus.cluster_id()
    return unsigned if key is None else signer(key, lambda: cluster)


def own_key(settings: Settings, role: KeyRole) -> SigningKey | None:
    """The key with which this process signs; None: it has none, and needs none.

    Raises:
        ConfigError: the key can't be read; or signatures are required and there is no key, or it
            may not sign what this process publishes, which would be refused.
    """
    security = settings.security
    if security.sign_with is None:
        if security.require_signatures:
            raise ConfigError(
                "security.require_signatures is on, and this service has no key: set"
                " security.sign_with (TIDEGATE_SECURITY__SIGN_WITH) to its private key's file, and"
                f' list the key in [[security.keys]] with roles = ["{role}"]'
            )
        return None
    key = SigningKey.read(security.sign_with)
    listed = [it for it in trusted_keys(settings) if it.public.key_id == key.key_id]
    if security.keys and not listed:
        raise ConfigError(f"the key in {security.sign_with} is not in [[security.keys]]")
    if listed and role not in listed[0].roles:
        fit = [it.name for it in security.keys if role in it.roles]
        others = f" (the key of {' or '.join(fit)} is listed for it)" if fit else ""
        raise ConfigError(
            f"the key in {security.sign_with} is of {listed[0].name} and may not sign what this"
            f" service publishes: name the right file in security.sign_with{others}; else add"
            f' "{role}" to the roles of {listed[0].name} in [[security.keys]]'
        )
    return key


SERVICES: Final[Mapping[str, Callable[[Settings, Bus, ObservedService | None], Loop]]] = (
    MappingProxyType(
        {
            COORDINATOR: _coordinator,
            SavepointWriter.name: partial(_executor, _savepoint_writer),
            Restorer.name: partial(_executor, _restorer),
            Cleaner.name: partial(_executor, cleaner),
        }
    )
)


def assemble(
    name: str, settings: Settings, bus: Bus, monitoring: ProcessMonitoring | None = None
) -> Loop:
    """Build a service and join its consumer group; with monitoring, measure it.

    Raises:
        ConfigError: the service is unknown, or its settings or topics are invalid.
    """
    if name not in SERVICES:
        raise ConfigError(f"unknown service {name!r}: choose from {', '.join(SERVICES)}")
    return SERVICES[name](settings, bus, monitoring.service(name) if monitoring else None)
