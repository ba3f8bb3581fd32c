"""Tells a topic from another one of the same name, by the broker's id.

A topic that is deleted and created again has the same name, so a consumer would continue at its old
offset and skip the new topic's earlier records. Only the broker's topic id differs. A topic that
gets more partitions has the events of one table on two of them.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.errors import OffsetGapError, StopService
from tidegate.errors.commands import command_line


class TopicIdentity(NamedTuple):
    """The broker's id of a topic, and its number of partitions."""

    topic_id: str
    partitions: int


def require_same_topic(group: str, topic: str, before: TopicIdentity, now: TopicIdentity) -> None:
    """Compare a topic with what it was when the group's member joined.

    Raises:
        OffsetGapError: it was deleted and created again.
        StopService: it has another number of partitions.
    """
    service = group.rpartition(".")[2]
    if now.topic_id != before.topic_id:
        raise OffsetGapError(
            f"{topic} was deleted and created again while {group} was using it: records may have"
            " been skipped; nothing of the new topic was acknowledged. Find out what is missing;"
            " to continue with what the topics have now:"
            f" {command_line('replay group', service, to_earliest=True, execute=True)}"
        )
    if now.partitions != before.partitions:
        raise StopService(
            f"{topic} has {now.partitions} partitions, it had {before.partitions} when {service}"
            " started: new events of a table may be on another partition than its earlier ones."
            f" Compare all topics with: {command_line('topics check')}"
        )
