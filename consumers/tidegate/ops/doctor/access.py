"""Check whether this principal has the access rights that a service needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from tidegate.errors.commands import command_line
from tidegate.ops.acls import Acl, acls
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, RESULT_TIMEOUT, Broker
from tidegate.ops.doctor.finding import DENIED, Finding, Status

Allowed = Mapping[tuple[str, str], frozenset[str]]
"""The allowed operations by resource and name; unreported resources are left out."""


def check_access(broker: Broker, service: str) -> Finding:
    """Whether the principal of the settings has every right that a service needs."""
    rights = acls(broker.topics.prefix)
    needed = [right for right in rights if right.role == service]
    return compare_rights(service, needed, _allowed(broker, needed))


def compare_rights(service: str, needed: Sequence[Acl], allowed: Allowed) -> Finding:
    """Compare the needed rights with the rights that the broker reports. Pure."""
    check = f"access {service}"
    missing = [
        right
        for right in needed
        if right.operation not in allowed.get((right.resource, right.name), {right.operation})
    ]
    unreported = [right for right in needed if (right.resource, right.name) not in allowed]
    unknown = sorted({right.resource for right in unreported})
    if missing:
        rights = ", ".join(f"{right.operation} {right.resource} {right.name}" for right in missing)
        advice = (
            "run the doctor as the service's principal, or grant them:"
            f" {command_line('topics acls')}"
        )
        return Finding(check, Status.FAIL, f"this principal may not {rights}", advice)
    known = "this principal has all rights that the broker reports"
    seen = f"{known}; unknown: {', '.join(unknown)}" if unknown else known
    return Finding(check, Status.OK if len(unreported) < len(needed) else Status.SKIPPED, seen)


def _allowed(broker: Broker, needed: Sequence[Acl]) -> dict[tuple[str, str], frozenset[str]]:
    names = {
        kind: sorted({right.name for right in needed if right.resource == kind})
        for kind in ("topic", "group")
    }
    options: dict[str, Any] = {
        "include_authorized_operations": True,
        "request_timeout": REQUEST_TIMEOUT,
    }
    futures = {
        "topic": broker.admin.describe_topics(TopicCollection(names["topic"]), **options),
        "group": broker.admin.describe_consumer_groups(names["group"], **options),
    }
    return {
        (kind, name): operations
        for kind, described in futures.items()
        for name, operations in _operations(described.items())
    }


def _operations(futures: Iterable[tuple[str, Future[Any]]]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, future in futures:
        try:
            operations = future.result(RESULT_TIMEOUT).authorized_operations
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                yield name, frozenset()
            continue
        if operations is not None:
            yield name, frozenset(operation.name.lower() for operation in operations)
