"""The access rights that a deployment needs, read off the topics' declarations.

A role is a service, or one of the declarations' outsiders: upstream writers, bridges, people,
monitoring. The broker allows nothing else where `allow.everyone.if.no.acl.found` is false.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.events.topics import DEFAULT_PREFIX, OUTCOME_TOPIC, TOPICS, Topic, changelog

Resource = Literal["topic", "group", "transactional-id"]
Operation = Literal["read", "write"]
EVERY_SERVICE: Final = "every service"
_OUTSIDERS: Final = ("upstream writers", "bridges", "people", "monitoring")
_READERS: Final = ("people", "monitoring")


@dataclass(frozen=True, slots=True)
class Acl:
    """One allowed operation. Read and write include describe; a pattern ends where it says so."""

    role: str
    operation: Operation
    resource: Resource
    name: str
    prefixed: bool = False

    @property
    def principal(self) -> str:
        """The role as Kafka's user name."""
        return f"User:{self.role.replace(' ', '-')}"

    def command(self, servers: str = "$BROKER") -> str:
        """The same as arguments of `kafka-acls`."""
        allow = f"--add --allow-principal {shlex.quote(self.principal)}"
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        where = f"--{self.resource} {shlex.quote(self.name)}{pattern}"
        options = "--command-config admin.properties"
        return (
            f"kafka-acls --bootstrap-server {servers} {options} {allow}"
            f" --operation {self.operation} {where}"
        )


def acls(
    prefix: str = DEFAULT_PREFIX, *, deciders: Sequence[str], executors: Sequence[str]
) -> tuple[Acl, ...]:
    """Every right that every role needs, and no more, in the order of the topics.

    Args:
        prefix: The prefix of the deployment's topics and groups.
        deciders: The services with a changelog.
        executors: The other services.
    """
    services = (*deciders, *executors)
    declared = (*TOPICS, *(changelog(name) for name in deciders))
    topics = [acl for topic in declared for acl in _topic(topic, prefix, services)]
    groups = [Acl(name, "read", "group", f"{prefix}.{name}") for name in services]
    outside = [Acl(name, "read", "group", f"{prefix}.{name}", prefixed=True) for name in _READERS]
    # an executor that looks whether a command was answered reads outcomes under a group's name
    back = [n for n in _roles(OUTCOME_TOPIC.read_by, services) if n in executors]
    groups += [Acl(name, "read", "group", OUTCOME_TOPIC.name(prefix)) for name in back]
    return (*topics, *groups, *outside, *(a for name in deciders for a in _memory(name, prefix)))


def _topic(topic: Topic, prefix: str, services: Sequence[str]) -> list[Acl]:
    name = topic.name(prefix)
    return [
        *(Acl(role, "write", "topic", name) for role in _roles(topic.written_by, services)),
        *(Acl(role, "read", "topic", name) for role in _roles(topic.read_by, services)),
    ]


def _roles(declared: str, services: Sequence[str]) -> list[str]:
    if declared == EVERY_SERVICE:
        return list(services)
    roles = [each.partition(" (")[0] for each in declared.split(", ")]
    return [role for role in roles if role in (*services, *_OUTSIDERS)]


def _memory(decider: str, prefix: str) -> list[Acl]:
    """What the fence needs: a transactional id a partition, and a group's name to read with."""
    name = changelog(decider).name(prefix)
    return [
        Acl(decider, "write", "transactional-id", f"{name}-", prefixed=True),
        Acl(decider, "read", "group", name),
    ]
