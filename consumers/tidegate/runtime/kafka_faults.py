"""Which of Kafka's faults pass by themselves, and which must stop a service."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import StopService, TransientError

# A broker that dies, restarts or stalls; a leader or a coordinator that moves. librdkafka's own
# codes have underscores.
_PASSING: Final = {
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._RETRY,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}

# A broker that has not heard of a new topic yet; or the topic is gone for good.
_UNKNOWN: Final = {
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


def passes(fault: KafkaError) -> bool:
    """Whether the same call may work a little later."""
    return not fault.fatal() and (fault.retriable() or fault.code() in _PASSING)


@contextmanager
def told_apart(doing: str) -> Generator[None]:
    """Turn Kafka's one exception into ours: wait and try again, or stop.

    Raises:
        TransientError: it passes by itself, or may do so: a topic that is not known (yet).
        StopService: it does not.
    """
    try:
        yield
    except KafkaException as error:
        fault: KafkaError = error.args[0]
        may_pass = passes(fault) or fault.code() in _UNKNOWN
        kind = TransientError if may_pass else StopService
        raise kind(f"{doing}: {fault.str()}") from error
