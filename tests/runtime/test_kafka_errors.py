"""Every code of the client: waited for, or a clear end. None may show people a traceback."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidegate import cli
from tidegate.errors import StopService, TransientError
from tidegate.runtime.kafka.errors import is_transient, text_of, translate_kafka_errors

CODES = {
    name: code
    for name in dir(KafkaError)
    if name.isupper() and isinstance(code := getattr(KafkaError, name), int)
}
# those that Kafka's own Java client retries (subclasses of RetriableException)
RETRIED_BY_JAVA = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "LEADER_NOT_AVAILABLE",
    "LISTENER_NOT_FOUND",
    "NETWORK_EXCEPTION",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "THROTTLING_QUOTA_EXCEEDED",
    "UNKNOWN_LEADER_EPOCH",
    "UNSTABLE_OFFSET_COMMIT",
)


@pytest.mark.parametrize("name", RETRIED_BY_JAVA)
def test_what_kafkas_own_client_retries_is_waited_for(name: str) -> None:
    assert is_transient(KafkaError(CODES[name]))


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_code_is_a_retry_or_an_end_that_names_what_was_done(name: str) -> None:
    with (
        pytest.raises((TransientError, StopService), match=r"^reading x\[0\]: .+"),
        translate_kafka_errors("reading x[0]"),
    ):
        raise KafkaException(KafkaError(CODES[name]))


@pytest.mark.parametrize(
    ("name", "command"),
    [("UNKNOWN_TOPIC_OR_PART", "topics check"), ("TOPIC_AUTHORIZATION_FAILED", "topics acls")],
)
def test_what_a_person_mends_has_its_command(name: str, command: str) -> None:
    with (
        pytest.raises((TransientError, StopService), match=rf": tidegate {command}\)$"),
        translate_kafka_errors("topic x"),
    ):
        raise KafkaException(KafkaError(CODES[name]))


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("", "Broker: Coordinator load in progress"),
        ("ConsumerGroupDescribe: ", "ConsumerGroupDescribe: Broker: Coordinator load in progress"),
        ("the broker's own words", "the broker's own words"),
    ],
)
def test_a_fault_without_a_text_is_described_by_its_code(given: str, seen: str) -> None:
    fault = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, given))
    with (
        pytest.raises(TransientError, match=f"^group x: {seen}$"),
        translate_kafka_errors("group x"),
    ):
        raise fault
    # the doctor shows some without the translation
    assert text_of(fault.args[0]) == seen


def test_an_admin_request_without_an_answer_is_tried_again() -> None:
    with (
        pytest.raises(TransientError, match="topic x: no answer in time"),
        translate_kafka_errors("topic x"),
    ):
        raise TimeoutError


@pytest.mark.parametrize("name", sorted(CODES))
def test_a_command_ends_with_one_line_and_exit_code_1(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(CODES[name]))

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("tidegate: Kafka: ")


def test_a_fault_of_our_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main()
