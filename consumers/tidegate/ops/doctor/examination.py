"""All checks of a deployment, one after another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.ops.doctor.broker import Broker, check_access
from tidegate.ops.doctor.events import INPUT_TOPICS, check_clock, check_owners, check_placement
from tidegate.ops.doctor.finding import Check, Finding, Status
from tidegate.ops.doctor.local import (
    PROBE,
    check_client_settings,
    check_registry,
    check_root,
    check_signatures,
    check_spark,
    check_versions,
)
from tidegate.ops.doctor.metastore import metastore_checks
from tidegate.ops.doctor.offsets import check_offsets, check_retention, check_state
from tidegate.service.catalogue import COORDINATOR, EXECUTORS
from tidegate.service.settings import Settings

_STARTING_SPARK: Final = 120.0
_READING: Final = 120.0


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
        reached = Check("broker", broker.reached).run()
    except ConfigError as error:
        advice = "correct [kafka] in the settings"
        reached = Finding(Status.FAIL, str(error), advice, "broker")
    yield reached
    running = broker if reached.state is Status.OK else None
    for name, function, arguments in _on_broker(settings, services):
        if running is None:
            yield Finding(Status.SKIPPED, "no broker", check=name)
        else:
            yield Check(name, partial(function, running, *arguments), _READING).run()
    for check in (
        *_elsewhere(settings, write=write, spark=spark),
        *metastore_checks(settings.bridge.metastore, running),
    ):
        yield check.run()


def _on_broker(
    settings: Settings, services: Sequence[str]
) -> Iterator[tuple[str, Callable[..., Finding], tuple[object, ...]]]:
    """The checks that need a broker: name, function, and arguments besides the broker."""
    yield "topics", Broker.check_topics_as_declared, ()
    # a service's own principal may not see the topics of other services
    if executors := [name for name in services if name in EXECUTORS]:
        yield "offset retention", check_retention, (executors,)
    for service in services:
        yield f"offsets {service}", check_offsets, (service,)
    if COORDINATOR in services:
        yield "state", check_state, ()
    for topic in INPUT_TOPICS:
        if set(services).intersection(topic.read_by):
            yield f"placement {topic.suffix}", check_placement, (topic,)
    for service in services:
        yield f"access {service}", check_access, (service,)
    if set(services).intersection(OUTCOME_TOPIC.read_by):
        yield "clock", check_clock, ()
        yield "savepoints", check_owners, (settings,)


def _elsewhere(settings: Settings, *, write: bool, spark: bool) -> Iterator[Check]:
    yield Check("client settings", partial(check_client_settings, settings))
    yield Check("signatures", partial(check_signatures, settings))
    yield Check("versions", check_versions)
    yield Check("registry", partial(check_registry, settings), 60.0)
    start = partial(check_spark, settings.spark, start=spark)
    yield Check("spark", start, _STARTING_SPARK if spark else 30.0)
    roots, options = settings.warehouse.roots, settings.warehouse.options
    probe = f"{PROBE}-{uuid.uuid4().hex}" if write else None
    for root in roots:
        yield Check(f"root {root}", partial(check_root, root, roots, options, probe=probe))
    if not roots:
        nothing = "no root is configured: the executors may not change any table"
        advice = "list them in [warehouse] roots"
        yield Check("roots", partial(Finding, Status.FAIL, nothing, advice))
