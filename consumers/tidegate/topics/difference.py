"""Compare the topics that are declared with those that were found. Pure: no broker is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.topics.declaration import Declared

_KEPT_APART: Final = (
    "a table's events and its state would lie apart; set [topics] partitions to what all topics"
    " have, or delete this one while nothing is on it and run: tidegate topics create"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the broker has it. `settings` None: this principal may not see them.

    `replication` is that of the partition with the fewest replicas.
    """

    partitions: int
    replication: int
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a topic is not as declared, and what to do about it.

    `found` None: the topic is not there, or its settings can't be seen.
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
            have = f"has {self.found} partitions, the settings say {self.declared}"
        elif self.found is None:
            have = f"does not show its {self.what}"
        else:
            have = f"has {self.what} = {self.found}, declared is {self.declared}"
        return f"topic {self.topic} {have}: {self.remedy}"


def differences(declared: Iterable[Declared], found: Mapping[str, Found]) -> tuple[Difference, ...]:
    """Everything that differs, in the order of the declarations.

    What a declaration does not mention is the broker's own affair. More replicas than declared are
    no difference; fewer are.
    """
    return tuple(
        each
        for topic in declared
        for each in (
            _differences(topic, found[topic.name])
            if topic.name in found
            else [Difference(topic.name, "topic", "", None, "run: tidegate topics create")]
        )
    )


def _differences(declared: Declared, found: Found) -> Iterator[Difference]:
    name = declared.name
    if found.partitions != declared.partitions:
        counts = (str(declared.partitions), str(found.partitions))
        yield Difference(name, "partitions", *counts, _KEPT_APART)
    if found.replication < declared.replication:
        counts = (str(declared.replication), str(found.replication))
        yield Difference(name, "replication", *counts, "add replicas: kafka-reassign-partitions")
    if found.settings is None:
        yield Difference(name, "settings", "", None, "allow DescribeConfigs on it")
        return
    for setting, value in declared.topic.settings().items():
        have = found.settings.get(setting, "")
        if _same(have) != _same(value):
            yield Difference(name, setting, value, have, _alter(name, setting, value))


def _same(value: str) -> list[str]:
    """A policy is a list in any order: `compact,delete` is `delete,compact`."""
    return sorted(each.strip() for each in value.split(","))


def _alter(topic: str, setting: str, value: str) -> str:
    return (
        f"kafka-configs --alter --entity-type topics --entity-name {topic}"
        f" --add-config {setting}={value}"
    )
