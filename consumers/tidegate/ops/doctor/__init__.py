"""The doctor: independent checks of a deployment, each with a finding and advice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tidegate.bridges.position import HUDI_BRIDGE
from tidegate.errors import ConfigError
from tidegate.events.topics import OUTCOME_TOPIC, TOPICS
from tidegate.ops.doctor import broker as on_broker
from tidegate.ops.doctor import local, outcomes
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Finding, checked
from tidegate.service.catalogue import COORDINATOR, EXECUTORS
from tidegate.service.settings import Settings

_READING: Final = 120.0
_STARTING_SPARK: Final = 120.0
_Check = tuple[str, Callable[..., Finding], object]
"""Its name, its function, and an argument after the broker; None: it has no other."""


def examine(
    settings: Settings, services: Sequence[str], *, write: bool = False, spark: bool = False
) -> Iterator[Finding]:
    """Run every check, and yield findings as they come.

    Args:
        settings: The deployment.
        services: The services whose offsets, state and access rights are checked.
        write: Whether to create and remove a hidden file in each warehouse root.
        spark: Whether to start a Spark session and run a job.
    """
    broker: Broker | None = None
    try:
        broker = Broker(settings)
        reached = checked("broker", broker.reached)
    except ConfigError as error:
        reached = Finding("fail", str(error), "correct [kafka] in the settings", "broker")
    yield reached
    running = broker if reached.state == "ok" else None
    for name, function, argument in _on_broker(services):
        if running is None:
            yield Finding("skipped", "no broker", check=name)
        else:
            arguments = (running,) if argument is None else (running, argument)
            yield checked(name, partial(function, *arguments), _READING)
    yield checked("client settings", partial(local.check_client_settings, settings))
    yield checked("rules", partial(local.check_rules, settings))
    yield checked("signatures", partial(local.check_signatures, settings))
    yield checked("versions", local.check_versions)
    yield checked("registry", partial(local.check_registry, settings), 60.0)
    started = partial(local.check_spark, settings, start=spark)
    yield checked("spark", started, _STARTING_SPARK if spark else 30.0)
    roots = settings.warehouse.roots
    probe = f"{local.PROBE}-{uuid.uuid4().hex}" if write else None
    for root in roots:
        check = partial(local.check_root, root, roots, settings.warehouse.options, probe=probe)
        yield checked(f"root {root}", check)
    if not roots:
        nothing = "no root is configured: the executors may not change any table"
        yield Finding("fail", nothing, "list them in [warehouse] roots", "roots")
    if (metastore := settings.bridge.metastore) is not None:
        yield from local.check_metastores(metastore, running)
    if settings.bridge.hudi is not None and running is not None:
        yield checked("hudi bridge", partial(on_broker.check_bridge, running, HUDI_BRIDGE))


def _on_broker(services: Sequence[str]) -> Iterator[_Check]:
    yield "topics", on_broker.check_topics, None
    # a service's own principal may not see the topics of other services
    if executors := [name for name in services if name in EXECUTORS]:
        yield "offset retention", on_broker.check_retention, executors
    for service in services:
        yield f"running {service}", on_broker.check_running, service
    for service in services:
        yield f"offsets {service}", on_broker.check_offsets, service
    if COORDINATOR in services:
        yield "state", on_broker.check_state, None
    for topic in TOPICS:  # services expect the events of their inputs on the table's partition
        if topic.events and topic != OUTCOME_TOPIC and set(services).intersection(topic.read_by):
            yield f"placement {topic.suffix}", on_broker.check_placement, topic
    for service in services:
        yield f"access {service}", on_broker.check_access, service
    if set(services).intersection(OUTCOME_TOPIC.read_by):
        yield "clock", outcomes.check_clock, None
        yield "savepoints", outcomes.check_owners, None


__all__ = ["Finding", "examine"]
