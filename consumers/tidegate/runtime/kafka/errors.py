"""Which of Kafka's errors are transient, and which must stop a service."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import StopService, TransientError
from tidegate.errors.commands import command_line

# A broker that dies, restarts or stalls; a leader or a coordinator that moves. librdkafka's own
# codes have underscores: most of them mean that a connection ended while a call waited for it.
_TRANSIENT: Final = {
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._DESTROY_BROKER,  # noqa: SLF001 - a broker left the cluster's list during the call
    KafkaError._FAIL,  # noqa: SLF001
    KafkaError._INTR,  # noqa: SLF001
    KafkaError._ISR_INSUFF,  # noqa: SLF001
    KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
    KafkaError._NODE_UPDATE,  # noqa: SLF001
    KafkaError._NOENT,  # noqa: SLF001 - "No leaders found", while one is elected
    KafkaError._OUTDATED,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError._RETRY,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._UNKNOWN_BROKER,  # noqa: SLF001
    KafkaError._WAIT_CACHE,  # noqa: SLF001
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.LISTENER_NOT_FOUND,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}

# A broker does not know a new topic yet, or the topic was deleted.
_UNKNOWN: Final = {
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


# A batch is corrupt or unpacks to more than the client accepts. Reading it again fails the same
# way, so a reader that waited would wait forever.
_UNREADABLE: Final = {
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._BAD_MSG,  # noqa: SLF001
}

_REFUSED: Final = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_ADVICE: Final = f" (the rights of each role: {command_line('topics acls')})"


def is_unreadable(fault: KafkaError) -> bool:
    """Whether the records at one offset can't be read, but those after it can."""
    return fault.code() in _UNREADABLE


def is_transient(fault: KafkaError) -> bool:
    """Whether the same call may succeed a little later."""
    return not fault.fatal() and (fault.retriable() or fault.code() in _TRANSIENT)


def require_transient(fault: KafkaError, doing: str) -> None:
    """Raise the translated fault (see `translate_kafka_errors`), unless it is transient."""
    if not is_transient(fault):
        with translate_kafka_errors(doing):
            raise KafkaException(fault)


@contextmanager
def translate_kafka_errors(doing: str) -> Generator[None]:
    """Translate KafkaException and the time-out of an admin request into TidegateErrors.

    Raises:
        TransientError: a retry may succeed; also raised if a topic is not known (yet).
        StopService: a retry is useless.
    """
    try:
        yield
    except KafkaException as error:
        fault: KafkaError = error.args[0]
        may_pass = is_transient(fault) or fault.code() in _UNKNOWN
        kind = TransientError if may_pass else StopService
        advice = _ADVICE if fault.code() in _REFUSED else ""
        raise kind(f"{doing}: {fault.str()}{advice}") from error
    except TimeoutError as error:  # an admin request's future: the client itself did not answer
        raise TransientError(f"{doing}: no answer in time") from error
