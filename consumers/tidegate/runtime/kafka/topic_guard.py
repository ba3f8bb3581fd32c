"""Checks that the topics of a group's member are still the ones that it joined with."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from tidegate.errors import StopService, TransientError
from tidegate.runtime.bus import TopicIdentity, require_same_topic
from tidegate.runtime.kafka.metadata import KafkaMetadata

log = logging.getLogger(__name__)
_SECONDS_BETWEEN: Final = 0.25
"""A check takes 0.7 ms of CPU time: a third of a percent at this rate."""
_SECONDS_IDLE: Final = 2.0
_END_OF_IDS: Final = "|"


class TopicGuard:
    """Compares the topics of one member with their identities at its first assignment.

    Call `join` at every assignment, then `passed` when it `is_due`, and before offsets are
    committed: if it is true, the records that were read before it may be acknowledged.
    """

    def __init__(
        self, group: str, topics: Sequence[str], watched: Sequence[str], metadata: KafkaMetadata
    ) -> None:
        """Take the topics that the member reads, and others that it relies on."""
        self._group, self._metadata = group, metadata
        self._watched = tuple(watched)
        self._names = sorted({*topics, *watched})
        self._joined: dict[str, TopicIdentity] = {}
        self._last = 0.0
        self._silent_since: float | None = None
        """When the broker first did not answer; None while it answers."""
        self.has_failed = False
        """Whether a topic has changed: from then on nothing may be acknowledged."""

    def join(self) -> None:
        """Record the topics' identities the first time; compare them later.

        Raises:
            OffsetGapError: a topic was created again since the first assignment.
            StopService: a topic has another number of partitions.
            TransientError: the broker did not answer.
        """
        self._compare(self._metadata.identities(self._names))

    def is_due(self, *, urgent: bool) -> bool:
        """Whether to check: every 0.25 s if offsets wait for it, else every 2 s."""
        pause = _SECONDS_BETWEEN if urgent and self._silent_since is None else _SECONDS_IDLE
        return bool(self._joined) and time.monotonic() >= self._last + pause

    def passed(self) -> bool:
        """Ask whether the topics are the same. False without an answer.

        Raises:
            OffsetGapError: a topic was created again.
            StopService: a topic has another number of partitions.
        """
        try:
            self._compare(self._metadata.identities(self._names))
        except TransientError as error:
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                log.warning("%s: the broker is away; offsets wait: %s", self._group, error)
            return False
        finally:
            self._last = time.monotonic()
        if self._silent_since is not None:
            seconds = time.monotonic() - self._silent_since
            self._silent_since = None
            log.warning("%s: the broker is back after %.0f s", self._group, seconds)
        return True

    def with_ids(self, topic: str, text: str) -> str:
        """Commit metadata: the ids of the topic and of the watched topics, then the text."""
        names = (topic, *self._watched)
        ids = [self._joined[name].topic_id for name in names if name in self._joined]
        return f"{','.join(ids)}{_END_OF_IDS}{text}"

    def text_of(self, topic: str, metadata: str | None) -> str:
        """The text of commit metadata that was committed with the same topics.

        Raises:
            OffsetGapError: the offset belongs to another topic of the same name.
        """
        ids, text = split_metadata(metadata)
        if not ids:  # committed by an earlier version or another tool
            return text
        for name, topic_id in zip(
            (topic, *self._watched), ids.removesuffix(_END_OF_IDS).split(","), strict=False
        ):
            now = self._joined[name]
            require_same_topic(self._group, name, TopicIdentity(topic_id, now.partitions), now)
        return text

    def _compare(self, found: dict[str, TopicIdentity]) -> None:
        try:
            for name, now in found.items():
                require_same_topic(self._group, name, self._joined.setdefault(name, now), now)
        except StopService:
            self.has_failed = True
            raise


def split_metadata(metadata: str | None) -> tuple[str, str]:
    """Split commit metadata into the topics' ids and the text after them.

    The ids are empty if an earlier version or another tool committed it. To replace the text only,
    write the new text after the same ids: the guard compares those.
    """
    ids, is_ours, text = (metadata or "").partition(_END_OF_IDS)
    return (ids + _END_OF_IDS, text) if is_ours else ("", ids)


def watched_ids(metadata: str | None) -> list[str]:
    """The ids of the watched topics in commit metadata; empty if there are none."""
    return split_metadata(metadata)[0].removesuffix(_END_OF_IDS).split(",")[1:]
