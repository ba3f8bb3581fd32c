"""May this principal do what a service has to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from tidegate.doctor.broker import PATIENCE, SECONDS, Broker
from tidegate.doctor.finding import DENIED, Finding, State
from tidegate.services.assembly import DECIDERS, EXECUTORS
from tidegate.topics.acls import Acl, acls

Allowed = Mapping[tuple[str, str], frozenset[str]]
"""The operations allowed by resource and name; what the broker does not tell is not in it."""


def access_given(broker: Broker, service: str) -> Finding:
    """Whether the principal of the settings has every right that a service needs."""
    rights = acls(broker.topics.prefix, deciders=DECIDERS, executors=EXECUTORS)
    needed = [each for each in rights if each.role == service]
    return rights_held(service, needed, _allowed(broker, needed))


def rights_held(service: str, needed: Sequence[Acl], allowed: Allowed) -> Finding:
    """Compare the rights that are needed with those that the broker tells of. Pure."""
    check = f"access {service}"
    lacking = [
        each
        for each in needed
        if each.operation not in allowed.get((each.resource, each.name), {each.operation})
    ]
    untold = [each for each in needed if (each.resource, each.name) not in allowed]
    unknown = sorted({each.resource for each in untold})
    if lacking:
        told = ", ".join(f"{each.operation} {each.resource} {each.name}" for each in lacking)
        advice = "run the doctor as the service's own principal, or allow it: tidegate topics acls"
        return Finding(check, State.FAIL, f"this principal may not {told}", advice)
    known = "this principal may do all that the broker tells of"
    seen = f"{known}; unknown: {', '.join(unknown)}" if unknown else known
    return Finding(check, State.OK if len(untold) < len(needed) else State.SKIPPED, seen)


def _allowed(broker: Broker, needed: Sequence[Acl]) -> dict[tuple[str, str], frozenset[str]]:
    names = {
        kind: sorted({each.name for each in needed if each.resource == kind})
        for kind in ("topic", "group")
    }
    options: dict[str, Any] = {
        "include_authorized_operations": True,
        "request_timeout": SECONDS,
    }
    asked = {
        "topic": broker.admin.describe_topics(TopicCollection(names["topic"]), **options),
        "group": broker.admin.describe_consumer_groups(names["group"], **options),
    }
    return {
        (kind, name): operations
        for kind, futures in asked.items()
        for name, operations in _told(futures.items())
    }


def _told(futures: Iterable[tuple[str, Future[Any]]]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, future in futures:
        try:
            operations = future.result(PATIENCE).authorized_operations
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                yield name, frozenset()
            continue
        if operations is not None:
            yield name, frozenset(each.name.lower() for each in operations)
