"""Checks, while a member works, that its topics are still those that it joined with."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from tidegate.errors import StopService, TransientError
from tidegate.runtime.kafka.metadata import KafkaMetadata, PendingIdentities
from tidegate.runtime.topic_identity import TopicIdentity, require_same_topic

log = logging.getLogger(__name__)
_SECONDS_BETWEEN: Final = 0.25
"""A check takes 0.7 ms of processor time: a third of a percent at this rate."""
_SECONDS_IDLE: Final = 2.0
_END_OF_IDS: Final = "|"


class TopicGuard:
    """Compares the topics of one member with what they were at its first assignment.

    Order of calls: `join` at every assignment; then `begin` where `is_due`, and `passed` once it
    `is_finished`. What was read before `begin` may be acknowledged when `passed`.
    """

    def __init__(
        self, group: str, topics: Sequence[str], watched: Sequence[str], metadata: KafkaMetadata
    ) -> None:
        """Take the topics that the member reads, and others that it relies on."""
        self._group, self._metadata = group, metadata
        self._watched = tuple(watched)
        self._names = sorted({*topics, *watched})
        self._joined: dict[str, TopicIdentity] = {}
        self._pending: PendingIdentities | None = None
        self._last = 0.0
        self._silent_since: float | None = None
        """When the broker first gave no answer, if it still gives none."""
        self.has_failed = False
        """Whether a topic was found changed: from then on nothing may be acknowledged."""

    def join(self) -> None:
        """Look at the topics: remember them the first time, compare them later.

        Raises:
            OffsetGapError: a topic was created again since the first assignment.
            StopService: a topic has another number of partitions.
            TransientError: the broker did not answer.
        """
        self.begin()
        self._compare(self._answer())

    def is_due(self, *, urgent: bool) -> bool:
        """Whether to begin a check: soon where offsets wait for it, else now and then."""
        pause = _SECONDS_BETWEEN if urgent else _SECONDS_IDLE
        return bool(self._joined) and time.monotonic() >= self._last + pause

    def begin(self) -> None:
        """Ask the broker; does not wait."""
        self._last = time.monotonic()
        self._pending = self._metadata.identities(self._names)

    @property
    def is_finished(self) -> bool:
        """Whether the broker has answered, or failed to."""
        return self._pending is not None and self._pending.is_done

    def passed(self) -> bool:
        """Whether the topics are the same; waits for the answer. False if the broker gave none.

        Raises:
            OffsetGapError: a topic was created again.
            StopService: a topic has another number of partitions.
        """
        try:
            self._compare(self._answer())
        except TransientError as error:
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                log.warning("%s: the broker is away; offsets wait: %s", self._group, error)
            return False
        if self._silent_since is not None:
            seconds = time.monotonic() - self._silent_since
            self._silent_since = None
            log.warning("%s: the broker is back after %.0f s", self._group, seconds)
        return True

    def with_ids(self, topic: str, text: str) -> str:
        """Commit metadata: the ids of the topic and of those watched, then a text."""
        names = (topic, *self._watched)
        ids = [self._joined[name].topic_id for name in names if name in self._joined]
        return f"{','.join(ids)}{_END_OF_IDS}{text}"

    def text_of(self, topic: str, metadata: str | None) -> str:
        """The text of commit metadata, if it was committed with the same topics.

        Raises:
            OffsetGapError: the offset is one of another topic of the same name.
        """
        ids, text = split_metadata(metadata)
        if not ids:  # of an earlier version, or of another tool
            return text
        for name, topic_id in zip(
            (topic, *self._watched), ids.removesuffix(_END_OF_IDS).split(","), strict=False
        ):
            now = self._joined[name]
            require_same_topic(self._group, name, TopicIdentity(topic_id, now.partitions), now)
        return text

    def _answer(self) -> dict[str, TopicIdentity]:
        pending, self._pending = self._pending, None
        if pending is None:
            raise TransientError("no check of the topics was begun")
        return pending.result()

    def _compare(self, found: dict[str, TopicIdentity]) -> None:
        try:
            for name, now in found.items():
                require_same_topic(self._group, name, self._joined.setdefault(name, now), now)
        except StopService:
            self.has_failed = True
            raise


def split_metadata(metadata: str | None) -> tuple[str, str]:
    """Commit metadata as the ids of topics, and the text behind them; no ids: an older version's.

    Whoever writes another text behind the same ids keeps what the guard compares.
    """
    ids, is_ours, text = (metadata or "").partition(_END_OF_IDS)
    return (ids + _END_OF_IDS, text) if is_ours else ("", ids)
