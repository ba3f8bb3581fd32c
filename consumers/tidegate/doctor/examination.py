"""All checks of a deployment, one after the other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tidegate.doctor.access import access_given
from tidegate.doctor.broker import Broker
from tidegate.doctor.clock import clock_skew
from tidegate.doctor.finding import Check, Finding, State
from tidegate.doctor.machine import spark_ready, versions
from tidegate.doctor.memory import memory_kept
from tidegate.doctor.offsets import offsets_kept
from tidegate.doctor.partitioner import partitioner_agrees
from tidegate.doctor.registry import registry_ready
from tidegate.doctor.retention import offsets_outlive_topics
from tidegate.doctor.roots import PROBE, root_usable
from tidegate.errors import ConfigError
from tidegate.events.topics import PARTITIONER
from tidegate.services.assembly import DECIDERS
from tidegate.settings import Settings

_NO_BROKER: Final = "no broker"
_STARTING_SPARK: Final = 120.0
_READING_MEMORY: Final = 120.0


@dataclass(frozen=True, slots=True)
class Extras:
    """What the doctor may do beyond looking."""

    write: bool = False
    """Make and remove a hidden file in each warehouse root."""
    spark: bool = False
    """Start a Spark session and run a job."""


def examine(
    settings: Settings, services: Sequence[str], extras: Extras = Extras()
) -> Iterator[Finding]:
    """Make every check, and give each finding as it comes.

    Args:
        settings: The deployment.
        services: Those whose offsets and access rights are looked at.
        extras: What may be done beyond looking.
    """
    broker, reached = _reach(settings)
    yield reached
    for check in _on_broker(broker, services):
        up = reached.state is State.OK
        yield check.run() if up else check.skipped(_NO_BROKER)
    for check in _elsewhere(settings, extras):
        yield check.run()


def _reach(settings: Settings) -> tuple[Broker | None, Finding]:
    try:
        broker = Broker(settings)
    except ConfigError as error:
        return None, Finding("broker", State.FAIL, str(error), "put [kafka] right")
    return broker, Check("broker", broker.reached).run()


def _on_broker(broker: Broker | None, services: Sequence[str]) -> Iterator[Check]:
    """The checks that need a broker; without one they can be named, not made."""
    if broker is None:
        names = [f"offsets {service}" for service in services]
        names += [f"memory {service}" for service in services if service in DECIDERS]
        names += [f"access {service}" for service in services]
        nothing = partial(Finding, "", State.SKIPPED, _NO_BROKER)
        for name in ("topics", "co-partitioning", "offset retention", *names, "clock"):
            yield Check(name, nothing)
        return
    yield Check("topics", broker.topics_as_declared)
    yield Check("co-partitioning", broker.copartitioned)
    yield Check("offset retention", partial(offsets_outlive_topics, broker))
    for service in services:
        yield Check(f"offsets {service}", partial(offsets_kept, broker, service))
    for decider in (each for each in services if each in DECIDERS):
        yield Check(f"memory {decider}", partial(memory_kept, broker, decider), _READING_MEMORY)
    for service in services:
        yield Check(f"access {service}", partial(access_given, broker, service))
    yield Check("clock", partial(clock_skew, broker))


def _elsewhere(settings: Settings, extras: Extras) -> Iterator[Check]:
    yield Check(
        "partitioner", partial(partitioner_agrees, settings.kafka.get("partitioner", PARTITIONER))
    )
    yield Check("versions", versions)
    yield Check("registry", partial(registry_ready, settings), 60.0)
    start = partial(spark_ready, settings.spark, start=extras.spark)
    yield Check("spark", start, _STARTING_SPARK if extras.spark else 30.0)
    roots, options = settings.warehouse.roots, settings.warehouse.storage
    probe = f"{PROBE}-{uuid.uuid4().hex}" if extras.write else None
    for root in roots:
        yield Check(f"root {root}", partial(root_usable, root, roots, options, probe=probe))
    if not roots:
        nothing = "none is configured: the executors have nothing to work on"
        advice = "name them in [warehouse] roots"
        yield Check("roots", partial(Finding, "roots", State.FAIL, nothing, advice))
