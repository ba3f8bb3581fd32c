"""Which of Kafka's errors are transient, and which must stop a service."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import StopService, TransientError
from tidegate.errors.commands import command_line
from tidegate.publisher.connection import codes

# A broker that dies, restarts or stalls; a leader or a coordinator that moves. librdkafka's own
# codes have underscores: most of them mean that a connection ended while a call waited for it. With
# _DESTROY_BROKER a broker left the cluster's list, with _NOENT a leader is being elected.
_TRANSIENT: Final = codes(
    """
    _ALL_BROKERS_DOWN _DESTROY_BROKER _FAIL _INTR _ISR_INSUFF _MAX_POLL_EXCEEDED _MSG_TIMED_OUT
    _NODE_UPDATE _NOENT _OUTDATED _RESOLVE _RETRY _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT
    _UNKNOWN_BROKER _WAIT_CACHE _WAIT_COORD BROKER_NOT_AVAILABLE CONCURRENT_TRANSACTIONS
    COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE
    FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND
    NETWORK_EXCEPTION NOT_CONTROLLER NOT_COORDINATOR NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE
    PREFERRED_LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE REQUEST_TIMED_OUT
    THROTTLING_QUOTA_EXCEEDED UNKNOWN_LEADER_EPOCH UNSTABLE_OFFSET_COMMIT
    """
)
# A broker does not know a new topic yet, or the topic was deleted.
_UNKNOWN: Final = codes("_UNKNOWN_PARTITION _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART")
# A batch is corrupt or unpacks to more than the client accepts. Reading it again fails the same
# way, so a reader that waited would wait forever.
_UNREADABLE: Final = codes("_BAD_COMPRESSION _BAD_MSG")
_REFUSED: Final = codes(
    """
    CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    """
)
_ADVICE: Final = f" (the rights of each role: {command_line('topics acls')})"

_IF_MISSING: Final = f" (it does not exist, or not yet: {command_line('topics check')})"


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


def text_of(fault: KafkaError) -> str:
    """The fault's text; a broker may give none, as in "ConsumerGroupDescribe: "."""
    text = fault.str().rstrip()
    return text if text and text[-1] != ":" else f"{text} {KafkaError(fault.code()).str()}".lstrip()


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
        advice = _IF_MISSING if fault.code() in _UNKNOWN else advice
        raise kind(f"{doing}: {text_of(fault)}{advice}") from error
    except TimeoutError as error:  # an admin request's future: the client itself did not answer
        raise TransientError(f"{doing}: no answer in time") from error
