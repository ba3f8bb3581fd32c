"""Compare the declared topics with the actual ones. Pure: no broker is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.errors.commands import command_line
from tidegate.events.topics import UNCLEAN
from tidegate.service.topics.declaration import MIN_IN_SYNC, DeclaredTopic

_AT_LEAST: Final = frozenset({MIN_IN_SYNC, "max.message.bytes"})
_HIDES_A_LOSS: Final = (
    "a replica without all confirmed records may become the leader, and their loss is not noticed; "
)
_SEPARATED: Final = (
    "a table's events and its state would be on different partitions; set [topics] partitions to"
    " the number that all topics have, or delete this one while it is empty and run:"
    f" {command_line('topics create')}"
)


@dataclass(frozen=True, slots=True)
class ActualTopic:
    """A topic as the broker has it. `settings` is None if this principal may not see them.

    `replication` is the smallest of its partitions'.
    """

    partitions: int
    replication: int
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """One difference between a topic and its declaration, and how to repair it.

    `found` is None if the topic does not exist, or its settings can't be seen.
    """

    topic: str
    what: str
    declared: str
    found: str | None
    remedy: str

    def __str__(self) -> str:
        """One line for people."""
        if self.what == "topic":
            return f"topic {self.topic} is missing: {self.remedy}"
        if self.what == "partitions":
            have = f"has {self.found} partitions, but [topics] partitions is {self.declared}"
        elif self.found is None:
            have = f"does not show its {self.what}"
        else:
            have = f"has {self.what} = {self.found}, declared: {self.declared}"
        return f"topic {self.topic} {have}: {self.remedy}"


def differences(
    declared: Iterable[DeclaredTopic], found: Mapping[str, ActualTopic]
) -> tuple[TopicDifference, ...]:
    """Everything that differs, in the order of the declarations.

    Settings that a declaration does not mention are not compared. More replicas than declared are
    accepted, also of those that must be in sync, and larger messages; fewer or smaller ones are
    not.
    """
    return tuple(
        difference
        for topic in declared
        for difference in (
            _differences(topic, found[topic.name])
            if topic.name in found
            else [
                TopicDifference(
                    topic.name, "topic", "", None, f"run: {command_line('topics create')}"
                )
            ]
        )
    )


def _differences(declared: DeclaredTopic, found: ActualTopic) -> Iterator[TopicDifference]:
    name = declared.name
    if found.partitions != declared.partitions:
        counts = (str(declared.partitions), str(found.partitions))
        yield TopicDifference(name, "partitions", *counts, _SEPARATED)
    if found.replication < declared.replication:
        counts = (str(declared.replication), str(found.replication))
        yield TopicDifference(
            name, "replication", *counts, "add replicas: kafka-reassign-partitions"
        )
    if found.settings is None:
        yield TopicDifference(name, "settings", "", None, "grant DescribeConfigs on it")
        return
    for setting, value in declared.settings().items():
        have = found.settings.get(setting, "")
        if setting in _AT_LEAST and have.isdigit() and int(have) >= int(value):
            continue
        if _same(have) != _same(value):
            why = _HIDES_A_LOSS if setting == UNCLEAN else ""
            yield TopicDifference(name, setting, value, have, why + _alter(name, setting, value))


def _same(value: str) -> list[str]:
    """A cleanup policy is a list in any order: `compact,delete` is `delete,compact`."""
    return sorted(part.strip() for part in value.split(","))


def _alter(topic: str, setting: str, value: str) -> str:
    return (
        f"kafka-configs --alter --entity-type topics --entity-name {topic}"
        f" --add-config {setting}={value}"
    )
