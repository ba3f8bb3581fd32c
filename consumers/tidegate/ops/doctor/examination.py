"""All checks of a deployment, one after another."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import SecretStr

from tidegate.errors import ConfigError
from tidegate.events.topics import PARTITIONER, Topic
from tidegate.ops.doctor.access import check_access
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.changelogs import check_state
from tidegate.ops.doctor.clock import check_clock
from tidegate.ops.doctor.finding import Check, Finding, Status
from tidegate.ops.doctor.local import (
    check_client_settings,
    check_membership,
    check_registry,
    check_signatures,
    check_spark,
    check_versions,
)
from tidegate.ops.doctor.metastore import metastore_checks
from tidegate.ops.doctor.offsets import check_offsets, check_retention
from tidegate.ops.doctor.placement import INPUT_TOPICS, check_partitioner, check_placement
from tidegate.ops.doctor.roots import PROBE, check_root
from tidegate.service.catalogue import COORDINATOR, EXECUTORS
from tidegate.service.settings import Settings

_NO_BROKER: Final = "no broker"
_STARTING_SPARK: Final = 120.0
_READING: Final = 120.0


@dataclass(frozen=True, slots=True)
class Extras:
    """Checks that do more than read, off by default."""

    write: bool = False
    """Create and remove a hidden file in each warehouse root."""
    spark: bool = False
    """Start a Spark session and run a job."""


def examine(
    settings: Settings,
    services: Sequence[str],
    extras: Extras = Extras(),
) -> Iterator[Finding]:
    """Run every check, and yield findings as they come.

    Args:
        settings: The deployment.
        services: The services whose offsets, state and access rights are checked.
        extras: The checks that do more than read.
    """
    broker, reached = _reach(settings)
    yield reached
    for check in _on_broker(broker, services):
        up = reached.state is Status.OK
        yield check.run() if up else check.skipped(_NO_BROKER)
    for check in _elsewhere(settings, services, extras):
        yield check.run()
    running = broker if reached.state is Status.OK else None
    for check in metastore_checks(settings.bridge.metastore, running):
        yield check.run()


def _reach(settings: Settings) -> tuple[Broker | None, Finding]:
    try:
        broker = Broker(settings)
    except ConfigError as error:
        return None, Finding("broker", Status.FAIL, str(error), "correct [kafka] in the settings")
    return broker, Check("broker", broker.reached).run()


def _on_broker(broker: Broker | None, services: Sequence[str]) -> Iterator[Check]:
    """The checks that need a broker; without a broker they are listed as skipped."""
    executors = [name for name in services if name in EXECUTORS]
    if broker is None:
        names = ["offset retention"] if executors else []
        names += [f"offsets {service}" for service in services]
        names += ["state"] if COORDINATOR in services else []
        names += [f"placement {topic.suffix}" for topic in _inputs(services)]
        names += [f"access {service}" for service in services]
        nothing = partial(Finding, "", Status.SKIPPED, _NO_BROKER)
        for name in ("topics", "co-partitioning", *names, "clock"):
            yield Check(name, nothing)
        return
    yield Check("topics", broker.check_topics_as_declared)
    yield Check("co-partitioning", broker.check_copartitioning)
    # a service's own principal may not see the topics of other services
    if executors:
        yield Check("offset retention", partial(check_retention, broker, executors))
    for service in services:
        yield Check(f"offsets {service}", partial(check_offsets, broker, service))
    if COORDINATOR in services:
        yield Check("state", partial(check_state, broker), _READING)
    for topic in _inputs(services):
        placement = partial(check_placement, broker, topic)
        yield Check(f"placement {topic.suffix}", placement, _READING)
    for service in services:
        yield Check(f"access {service}", partial(check_access, broker, service))
    yield Check("clock", partial(check_clock, broker))


def _inputs(services: Sequence[str]) -> list[Topic]:
    """The topics that these services read: their principals may not read other topics."""
    return [topic for topic in INPUT_TOPICS if set(services).intersection(topic.read_by)]


def _elsewhere(settings: Settings, services: Sequence[str], extras: Extras) -> Iterator[Check]:
    chosen = settings.kafka.get("partitioner", PARTITIONER)
    partitioner = chosen.get_secret_value() if isinstance(chosen, SecretStr) else chosen
    yield Check("partitioner", partial(check_partitioner, partitioner))
    yield Check("client settings", partial(check_client_settings, settings))
    yield Check("membership", partial(check_membership, settings, services))
    yield Check("signatures", partial(check_signatures, settings))
    yield Check("versions", check_versions)
    yield Check("registry", partial(check_registry, settings), 60.0)
    start = partial(check_spark, settings.spark, start=extras.spark)
    yield Check("spark", start, _STARTING_SPARK if extras.spark else 30.0)
    roots, options = settings.warehouse.roots, settings.warehouse.options
    probe = f"{PROBE}-{uuid.uuid4().hex}" if extras.write else None
    for root in roots:
        yield Check(f"root {root}", partial(check_root, root, roots, options, probe=probe))
    if not roots:
        nothing = "no root is configured: the executors may not change any table"
        advice = "list them in [warehouse] roots"
        yield Check("roots", partial(Finding, "roots", Status.FAIL, nothing, advice))
