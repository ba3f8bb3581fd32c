"""Build the Metastore bridge from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidegate.bridges import MetastoreBridgeLoop
from tidegate.bridges.facts import FactsReader
from tidegate.bridges.metastore import NAME as METASTORE_BRIDGE
from tidegate.errors import ConfigError
from tidegate.events.signature import KeyRole
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import SOURCE, MetastoreBridge
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_metastore.connection import require_thrift
from tidegate.monitoring.observed import observed_bus
from tidegate.monitoring.process import ProcessMonitoring
from tidegate.publisher import Publisher
from tidegate.registry import wire_for
from tidegate.runtime.bus import Bus
from tidegate.service.assembly import authorization, own_key
from tidegate.service.bridge_metrics import BridgeMetrics
from tidegate.service.settings import Settings
from tidegate.storage import Storage


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
    require_thrift()
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
        observer = BridgeMetrics(monitoring.metrics)
        bus = observed_bus(bus, monitoring.service(METASTORE_BRIDGE))

    def make_bridge(known: Baseline) -> MetastoreBridge:
        return MetastoreBridge(
            watched,
            lambda events: publisher.publish(*events),
            storage,
            known,
            observer=observer,
        )

    def make_reader(topics: Mapping[str, timedelta | None], group: str) -> FactsReader:
        wire, trusted = wire_for(settings.registry), authorization(settings, bus.cluster_id())
        return FactsReader(connection, topics, group, wire, trusted)

    interval = watched.interval_ms
    return MetastoreBridgeLoop(bus, prefix, make_bridge, make_reader, interval, observer=observer)
