"""After a leader was elected anew librdkafka's admin client must search for it again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidegate.errors import TransientError
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata

WHERE = Partition("inputs", 0)


class Listed:
    offset = 7


class RemembersItsLeader:
    """As seen with librdkafka 2.16 and a broker that was stopped for longer than its session.

    Every request failed for 75 s and longer, until metadata of the topic was asked for.
    """

    def __init__(self, code: int) -> None:
        self.code, self.is_outdated, self.looked_at = code, True, list[str]()

    def list_offsets(
        self, asked: Mapping[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, Future[Listed]]:
        answers: dict[TopicPartition, Future[Listed]] = {key: Future() for key in asked}
        for answer in answers.values():
            if self.is_outdated:
                answer.set_exception(KafkaException(KafkaError(self.code)))
            else:
                answer.set_result(Listed())
        return answers

    def list_topics(self, topic: str, **_: object) -> None:
        self.is_outdated = False
        self.looked_at.append(topic)


@pytest.mark.parametrize(
    "code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_a_retry_asks_the_leader_of_now(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata, admin = KafkaMetadata({"bootstrap.servers": "127.0.0.1:1"}), RemembersItsLeader(code)
    monkeypatch.setattr(metadata, "_admin", admin)

    with pytest.raises(TransientError):
        metadata.ends([WHERE])
    assert metadata.ends([WHERE]) == {WHERE: 7}
    assert admin.looked_at == ["inputs"]
