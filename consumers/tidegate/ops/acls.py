"""The access rights that a deployment needs, derived from the topics' declarations.

A role is a service or a party outside (`tidegate.events.topics`). With
`allow.everyone.if.no.acl.found=false` the broker allows nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from tidegate.events.topics import ALL_TOPICS, CHANGELOG, DEFAULT_PREFIX, SERVICES, Role, Topic

Resource = Literal["topic", "group", "transactional-id"]
Operation = Literal["read", "write", "describe", "create", "alter", "describe_configs"]
_OF_OPERATORS: Final[tuple[Operation, ...]] = (
    "read",
    "write",
    "create",
    "alter",
    "describe_configs",
)
BRIDGES: Final = ("metastore", "hudi")
_WATCHERS: Final = (Role.PEOPLE, Role.MONITORING)
_NONE: Final[Mapping[Role, Sequence[str]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Acl:
    """One allowed operation. Read and write include describe."""

    role: str
    operation: Operation
    resource: Resource
    name: str
    prefixed: bool = False
    principals: tuple[str, ...] = ()
    """Kafka's names of the role's principals, e.g. `User:CN=orders,OU=sales`."""

    def command(self, servers: str = '"$BROKERS"') -> str:
        """The same as arguments of `kafka-acls`."""
        allow = " ".join(f"--allow-principal {shlex.quote(name)}" for name in self.principals)
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        where = f"--{self.resource} {shlex.quote(self.name)}{pattern}"
        # Kafka's tool writes them in camel case
        operation = self.operation.title().replace("_", "")
        return (
            f"kafka-acls --bootstrap-server {servers} --command-config admin.properties"
            f" --add {allow} --operation {operation} {where}"
        )


def acls(
    prefix: str = DEFAULT_PREFIX, *, principals: Mapping[Role, Sequence[str]] = _NONE
) -> tuple[Acl, ...]:
    """The minimal rights of every role, in the order of the topics, without duplicates.

    Args:
        prefix: The prefix of the deployment's topics and groups.
        principals: Kafka's names of the principals, by role; by default `User:` and the role.
    """
    rights = [
        *(acl for topic in ALL_TOPICS for acl in _topic(topic, prefix)),
        *_watched(prefix),
        *_groups(prefix),
        *_transactions(prefix),
    ]
    return tuple(
        replace(acl, principals=tuple(principals.get(Role(acl.role), (f"User:{acl.role}",))))
        for acl in dict.fromkeys(rights)
    )


def _topic(topic: Topic, prefix: str) -> Iterator[Acl]:
    name = topic.name(prefix)
    for role in topic.written_by:
        yield Acl(role, "write", "topic", name)
    for role in topic.read_by:
        yield from _reading(role, name)
    # services and bridges compare a topic's settings with its declaration before they start
    for role in (*topic.written_by, *topic.read_by):
        if role not in (*_WATCHERS, Role.UPSTREAM_WRITERS):
            yield Acl(role, "describe_configs", "topic", name)
    for operation in _OF_OPERATORS:
        yield Acl(Role.OPERATORS, operation, "topic", name)
    yield from _reading(Role.OPERATORS, name)


def _reading(role: str, topic: str) -> Iterator[Acl]:
    """The rights to read a topic; without a group the client describes one of the same name."""
    yield Acl(role, "read", "topic", topic)
    yield Acl(role, "describe", "group", topic)


def _watched(prefix: str) -> Iterator[Acl]:
    """The rights to monitor the services' lag."""
    for role in _WATCHERS:
        for service in SERVICES:
            yield Acl(role, "describe", "group", f"{prefix}.{service}")
        for bridge in BRIDGES:
            yield Acl(role, "describe", "group", f"{prefix}.{Role.BRIDGES}.{bridge}")
        for topic in ALL_TOPICS:
            if role not in topic.read_by:
                yield Acl(role, "describe", "topic", topic.name(prefix))


def _groups(prefix: str) -> Iterator[Acl]:
    for service in SERVICES:
        yield Acl(service, "read", "group", f"{prefix}.{service}")
        yield Acl(Role.OPERATORS, "read", "group", f"{prefix}.{service}")
    for role in (Role.BRIDGES, Role.OPERATORS):
        for bridge in BRIDGES:
            yield Acl(role, "read", "group", f"{prefix}.{Role.BRIDGES}.{bridge}")
    # tools that follow the outcomes have their own groups
    monitoring = f"{prefix}.{Role.MONITORING}"
    yield Acl(Role.MONITORING, "read", "group", monitoring, prefixed=True)


def _transactions(prefix: str) -> Iterator[Acl]:
    """The rights that fencing needs; operators reset the state of a stopped coordinator."""
    for role in (Role.COORDINATOR, Role.OPERATORS):
        ids = f"{CHANGELOG.name(prefix)}-"
        yield Acl(role, "write", "transactional-id", ids, prefixed=True)
