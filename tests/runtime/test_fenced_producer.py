"""What a changelog's producer does when the broker does not say whether a commit succeeded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import StopService, TransientError
from tidegate.runtime.kafka import fenced_producer
from tidegate.runtime.kafka.fenced_producer import FencedProducer

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "retry call to resume", retriable=True)
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no access", txn_requires_abort=True)
UNDELIVERED = KafkaError(
    KafkaError._MSG_TIMED_OUT, "1 message(s) failed delivery", txn_requires_abort=True
)
CONFLICT = KafkaError(KafkaError._CONFLICT, "commit_transaction is in progress", retriable=True)


class Transactional:
    """As librdkafka's producer: a commit that timed out goes on, and allows nothing but itself."""

    def __init__(self) -> None:
        self.answers: list[KafkaError] = []
        self.open: list[bytes] = []
        self.stored: list[bytes] = []
        self.abort_answers: list[KafkaError] = []
        self.is_committing = self.is_aborting = False
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self._step("begin")

    def produce(self, topic: str, value: bytes, key: bytes, number: int, **_: object) -> None:
        assert (topic, key, number) == ("log", b"a", 0)
        self.open.append(value)

    def commit_transaction(self, timeout: float) -> None:
        assert timeout > 0
        self.calls.append("commit")
        if self.is_aborting:
            raise KafkaException(CONFLICT)
        self.is_committing = True
        if self.answers:
            error = self.answers.pop(0)
            self.is_committing = error.retriable()
            raise KafkaException(error)
        self.is_committing = False
        self.stored += self.open
        self.open.clear()

    def abort_transaction(self, timeout: float) -> None:
        assert timeout > 0
        self._step("abort")
        self.is_aborting = bool(self.abort_answers)
        if self.is_aborting:
            raise KafkaException(self.abort_answers.pop(0))
        self.open.clear()

    def _step(self, name: str) -> None:
        self.calls.append(name)
        if self.is_committing or (self.is_aborting and name != "abort"):
            raise KafkaException(CONFLICT)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Transactional:
    made = Transactional()

    def take(config: Mapping[str, str], transactional_id: str) -> Transactional:
        assert (config, transactional_id) == ({}, "mine")
        return made

    monkeypatch.setattr(fenced_producer, "_take_id", take)
    monkeypatch.setattr(fenced_producer, "_WAIT", 0.01)
    monkeypatch.setattr(fenced_producer, "_PAUSE", 0.02)
    return made


def written(value: bytes) -> dict[int, list[tuple[bytes, bytes | None]]]:
    return {0: [(b"a", value)]}


def test_a_commit_of_unknown_outcome_is_gone_on_with_and_never_aborted(
    client: Transactional,
) -> None:
    producer = FencedProducer({}, "log", "mine")
    client.answers = [TIMED_OUT] * 5
    for _ in range(2):
        with pytest.raises(TransientError, match="retry call to resume"):
            producer.write(written(b"1"))
    client.answers.clear()
    producer.write(written(b"1"))
    producer.write(written(b"2"))

    assert "abort" not in client.calls
    assert client.stored == [b"1", b"1", b"2"]


def test_a_commit_that_is_refused_after_all_is_aborted_and_stops(client: Transactional) -> None:
    producer = FencedProducer({}, "log", "mine")
    client.answers = [TIMED_OUT] * 2
    with pytest.raises(TransientError):
        producer.write(written(b"1"))
    client.answers = [REFUSED]
    with pytest.raises(StopService, match="no access"):
        producer.write(written(b"1"))

    assert client.calls[-1] == "abort"
    assert client.stored == []


def test_an_abort_of_unknown_outcome_is_gone_on_with_before_all_is_written_again(
    client: Transactional,
) -> None:
    producer = FencedProducer({}, "log", "mine")
    client.answers = [UNDELIVERED]
    client.abort_answers = [TIMED_OUT] * 5
    for _ in range(2):
        with pytest.raises(TransientError):
            producer.write(written(b"1"))
    client.abort_answers.clear()
    producer.write(written(b"1"))
    producer.write(written(b"2"))

    assert client.stored == [b"1", b"2"]


def test_an_abort_that_is_refused_stops(client: Transactional) -> None:
    producer = FencedProducer({}, "log", "mine")
    client.answers = [UNDELIVERED]
    client.abort_answers = [KafkaError(KafkaError.INVALID_TXN_STATE, "not now")]

    with pytest.raises(StopService, match="failed delivery"):
        producer.write(written(b"1"))
