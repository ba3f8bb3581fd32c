"""From a service's name and the settings to its loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

from tidegate.cleaning import Cleaner, ReaderGate
from tidegate.errors import ConfigError
from tidegate.events import Event
from tidegate.fanout import BySize, OnSpark
from tidegate.registry import wire_for
from tidegate.restores import PermittedRestorer, Restorer, RestoreSettings
from tidegate.runtime.bus import Bus
from tidegate.runtime.dead_letters import DeadLetterLimit
from tidegate.runtime.decider_loop import DeciderLoop
from tidegate.runtime.executor_loop import ExecutorLoop
from tidegate.runtime.patience import BRIEF, TABLE_WORK, Patience
from tidegate.runtime.services import Decider, Executor
from tidegate.savepoints import (
    SavepointMode,
    SavepointPolicy,
    SavepointPolicyService,
    SavepointRule,
    SavepointWriter,
)
from tidegate.settings import Settings
from tidegate.spark import lazy_session
from tidegate.warehouse import Warehouse, WarehouseRoots


class Loop(Protocol):
    """A service that is a member of its group."""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        ...

    def close(self) -> object:
        """Leave the group."""
        ...


def table_work(settings: Settings) -> tuple[Warehouse, BySize]:
    """What an executor needs: the tables it may change, and where many files are worked on.

    Raises:
        ConfigError: no warehouse root is configured.
    """
    roots = WarehouseRoots.of(*settings.warehouse.roots)
    spark = OnSpark(lazy_session(settings.spark.conf))
    fan_out = BySize(spark, spark_from=settings.spark.from_items)
    return Warehouse(roots, settings.warehouse.storage), fan_out


def savepoint_policy(settings: Settings) -> SavepointPolicy:
    """The policy that the settings' rules make."""
    rules = (
        SavepointRule(pattern=rule.tables, mode=SavepointMode(rule.when))
        for rule in settings.savepoints
    )
    return SavepointPolicy(rules=tuple(rules))


def restore_settings(settings: Settings) -> RestoreSettings:
    """How the restorer tells a living writer."""
    return RestoreSettings(watch=timedelta(seconds=settings.restores.watch_seconds))


def limits(service: str, settings: Settings, usual: Patience) -> tuple[Patience, DeadLetterLimit]:
    """How long a service retries, where the settings say nothing as usual; when it stops."""
    told = settings.services.limits_of(service)
    first, longest = told.retries.first_wait_ms, told.retries.longest_wait_ms
    patience = Patience(
        attempts=told.retries.attempts or usual.attempts,
        first=first / 1000 if first else usual.first,
        longest=longest / 1000 if longest else usual.longest,
    )
    return patience, DeadLetterLimit(window=told.of, most=told.most)


def _now() -> datetime:
    return datetime.now(UTC)


def _executor(
    kind: Callable[[Warehouse, BySize, Callable[[], datetime]], Executor],
    settings: Settings,
    bus: Bus,
) -> Loop:
    warehouse, fan_out = table_work(settings)
    executor = kind(warehouse, fan_out, _now)
    patience, limit = limits(executor.name, settings, TABLE_WORK)
    return ExecutorLoop(
        executor,
        bus,
        settings.topics.prefix,
        threads=settings.services.threads,
        patience=patience,
        limit=limit,
        wire=wire_for(settings.registry),
    )


def _permitted(
    settings: Settings, warehouse: Warehouse, fan_out: BySize, clock: Callable[[], datetime]
) -> PermittedRestorer:
    restorer = Restorer(warehouse, fan_out, clock, restore_settings(settings))
    return PermittedRestorer(restorer, settings.restores.requested_by)


def _restorer(settings: Settings, bus: Bus) -> Loop:
    return _executor(partial(_permitted, settings), settings, bus)


def decider_of(name: str, settings: Settings) -> Decider[Any]:
    """A decider, by its name."""
    if name == ReaderGate.name:
        return ReaderGate()
    return SavepointPolicyService(savepoint_policy(settings))


def _decider(name: str, settings: Settings, bus: Bus) -> Loop:
    decider = decider_of(name, settings)
    patience, limit = limits(decider.name, settings, BRIEF)
    prefix, wire = settings.topics.prefix, wire_for(settings.registry)
    return DeciderLoop(decider, bus, prefix, patience=patience, limit=limit, wire=wire)


DECIDERS: Final = (SavepointPolicyService.name, ReaderGate.name)
EXECUTORS: Final = (SavepointWriter.name, Restorer.name, Cleaner.name)

HEARD: Final[Mapping[str, Sequence[type[Event]]]] = MappingProxyType(
    {
        kind.name: kind.hears
        for kind in (SavepointPolicyService, ReaderGate, SavepointWriter, Restorer, Cleaner)
    }
)
"""What each service hears."""

SERVICES: Final[Mapping[str, Callable[[Settings, Bus], Loop]]] = MappingProxyType(
    {
        SavepointPolicyService.name: partial(_decider, SavepointPolicyService.name),
        SavepointWriter.name: partial(_executor, SavepointWriter),
        Restorer.name: _restorer,
        ReaderGate.name: partial(_decider, ReaderGate.name),
        Cleaner.name: partial(_executor, Cleaner),
    }
)


def assemble(name: str, settings: Settings, bus: Bus) -> Loop:
    """Put a service together and join its group.

    Raises:
        ConfigError: there is no such service, or its settings or topics can't work.
    """
    if name not in SERVICES:
        raise ConfigError(f"there is no service {name!r}; there are {', '.join(SERVICES)}")
    return SERVICES[name](settings, bus)
