"""Build the bridges from the settings; the metrics of the Metastore bridge."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from tidegate.bridges.event_reader import EventReader
from tidegate.bridges.hudi import HudiBridgeLoop
from tidegate.bridges.metastore import MetastoreBridgeLoop
from tidegate.bridges.position import HUDI_BRIDGE, METASTORE_BRIDGE
from tidegate.errors import ConfigError
from tidegate.events.signature import KeyRole
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.settings import SOURCE
from tidegate.hive_metastore.connection import interface
from tidegate.hudi_bridge.watched import SOURCE as HUDI_SOURCE
from tidegate.monitoring import catalog
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import ProcessMonitoring
from tidegate.publisher import Publisher
from tidegate.registry import wire_for
from tidegate.runtime.bus import Bus
from tidegate.service.assembly import Loop, authorization, own_key
from tidegate.service.settings import Settings
from tidegate.storage import Storage


class _BridgeMetrics(Observer):
    """Counts the measurements in a process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        """Begin as a bridge on standby."""
        self._metrics = metrics
        metrics.set(catalog.BRIDGE_ACTIVE, 0, METASTORE_BRIDGE)

    def called(self, name: str) -> None:
        """Count a call."""
        self._metrics.add(catalog.BRIDGE_CALLS, 1, METASTORE_BRIDGE, name)

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Record the seconds of a listing, and the numbers of waiting holds and vacuums."""
        self._metrics.observe(catalog.BRIDGE_POLL, seconds, METASTORE_BRIDGE)
        self._metrics.set(catalog.BRIDGE_LAST_POLL, time.time(), METASTORE_BRIDGE)
        self._metrics.set(catalog.BRIDGE_HOLDS, holds, METASTORE_BRIDGE)
        self._metrics.set(catalog.BRIDGE_VACUUMS, unmarked, METASTORE_BRIDGE)

    def marked(self, count: int) -> None:
        """Count marked compactions."""
        self._metrics.add(catalog.BRIDGE_MARKED, count, METASTORE_BRIDGE)

    def refused(self) -> None:
        """Count a table, compaction or event that the bridge can't handle."""
        self._metrics.add(catalog.BRIDGE_REFUSED, 1, METASTORE_BRIDGE)

    def is_active(self, *, active: bool) -> None:
        """Record whether this is the active bridge."""
        self._metrics.set(catalog.BRIDGE_ACTIVE, int(active), METASTORE_BRIDGE)


def metastore_bridge(
    settings: Settings, bus: Bus, monitoring: ProcessMonitoring | None = None
) -> MetastoreBridgeLoop:
    """Build the bridge to the Hive Metastore of the settings, and join its group; measure it.

    Raises:
        ConfigError: the settings name no Metastore, a library is missing, or signatures are
            required and this process has no trusted key.
    """
    watched = settings.bridge.metastore
    if watched is None:
        raise ConfigError("no Metastore is configured: set uri in [bridge.metastore]")
    interface()  # a missing library shows now
    own_key(settings, KeyRole.WRITER)  # its events would all be refused
    prefix, connection = settings.topics.prefix, settings.connection()
    publisher = Publisher(
        source=SOURCE,
        prefix=prefix,
        config=connection,
        registry=settings.registry,
        sign_with=settings.security.sign_with,
    )
    storage = Storage(settings.warehouse.options)
    observer: Observer = UNOBSERVED
    if monitoring is not None:
        observer = _BridgeMetrics(monitoring.metrics)
        bus = monitoring.service(METASTORE_BRIDGE).bus(bus)

    def make_bridge(known: Baseline) -> MetastoreBridge:
        return MetastoreBridge(
            watched, lambda events: publisher.publish(*events), storage, known, observer=observer
        )

    trusted = authorization(settings, bus.cluster_id())
    wire, interval = wire_for(settings.registry), watched.interval_ms
    make_reader = partial(EventReader, connection, wire=wire, authorization=trusted)
    return MetastoreBridgeLoop(bus, prefix, make_bridge, make_reader, interval, observer=observer)


def hudi_bridge(
    settings: Settings, bus: Bus, monitoring: ProcessMonitoring | None = None
) -> HudiBridgeLoop:
    """Build the bridge to the Hudi tables of the settings, and join its group; measure it.

    Raises:
        ConfigError: the settings name no tables, or a port or a topic for callbacks that is not
            to be had.
    """
    watched = settings.bridge.hudi
    if watched is None:
        raise ConfigError("no Hudi tables are configured: set tables and catalog in [bridge.hudi]")
    prefix, connection = settings.topics.prefix, settings.connection()
    if monitoring is not None:
        bus = monitoring.service(HUDI_BRIDGE).bus(bus)
    publisher = Publisher(
        source=HUDI_SOURCE, prefix=prefix, config=connection, registry=settings.registry
    )

    try:
        return HudiBridgeLoop(
            bus,
            prefix,
            settings=watched,
            storage=Storage(settings.warehouse.options),
            publish=lambda events: publisher.publish(*events),
            make_reader=partial(EventReader, connection, wire=wire_for(settings.registry)),
        )
    except OSError as error:
        where = f"{watched.callback_host}:{watched.callback_port}"
        raise ConfigError(f"{where} can't be listened on: {error.strerror}") from error


BRIDGES: Final[Mapping[str, Callable[[Settings, Bus, ProcessMonitoring | None], Loop]]] = (
    MappingProxyType({METASTORE_BRIDGE: metastore_bridge, HUDI_BRIDGE: hudi_bridge})
)
"""What builds each bridge, by its name."""
