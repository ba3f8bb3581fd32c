"""The access rights that a deployment needs, derived from the topics' declarations.

A role is a service or a party outside (`tidegate.events.roles`). With
`allow.everyone.if.no.acl.found=false` the broker allows nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tidegate.events.roles import OUTSIDERS, Role
from tidegate.events.topics import (
    COMMAND_TOPIC,
    DEFAULT_PREFIX,
    OUTCOME_TOPIC,
    TOPICS,
    Topic,
    changelog,
)

Resource = Literal["topic", "group", "transactional-id"]
Operation = Literal["read", "write"]
_READERS: Final = (Role.PEOPLE, Role.MONITORING, Role.BRIDGES)


@dataclass(frozen=True, slots=True)
class Acl:
    """One allowed operation. Read and write include describe."""

    role: str
    operation: Operation
    resource: Resource
    name: str
    prefixed: bool = False

    @property
    def principal(self) -> str:
        """The role as Kafka's user name."""
        return f"User:{self.role}"

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
    """The minimal rights of every role, in the order of the topics.

    Args:
        prefix: The prefix of the deployment's topics and groups.
        deciders: The services with a changelog.
        executors: The other services.
    """
    services = (*deciders, *executors)
    declared = (*TOPICS, *(changelog(name) for name in deciders))
    topics = [acl for topic in declared for acl in _topic(topic, prefix, (*services, *OUTSIDERS))]
    groups = [Acl(name, "read", "group", f"{prefix}.{name}") for name in services]
    outside = [Acl(name, "read", "group", f"{prefix}.{name}", prefixed=True) for name in _READERS]
    # an executor that looks up past outcomes reads them under a group's name
    back = [n for n in OUTCOME_TOPIC.readers if n in executors]
    groups += [Acl(name, "read", "group", OUTCOME_TOPIC.name(prefix)) for name in back]
    # the cleaner looks up who holds a table
    groups += [Acl(Role.CLEANER, "read", "group", COMMAND_TOPIC.name(prefix))]
    return (*topics, *groups, *outside, *(a for name in deciders for a in _changelog(name, prefix)))


def _topic(topic: Topic, prefix: str, roles: Collection[str]) -> list[Acl]:
    name = topic.name(prefix)
    return [
        *(Acl(role, "write", "topic", name) for role in topic.writers if role in roles),
        *(Acl(role, "read", "topic", name) for role in topic.readers if role in roles),
    ]


def _changelog(decider: str, prefix: str) -> list[Acl]:
    """What fencing needs: transactional ids of its own, and a group's name to read with."""
    name = changelog(decider).name(prefix)
    return [
        Acl(decider, "write", "transactional-id", f"{name}-", prefixed=True),
        Acl(decider, "read", "group", name),
    ]
