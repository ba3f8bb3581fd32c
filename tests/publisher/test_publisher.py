"""What upstream writers call: the right event, on the right topic and partition, confirmed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from support.kafka import create_topic
from tidegate.errors import ConfigError, DeliveryError, InvalidEventError
from tidegate.events import (
    CommitCompleted,
    Event,
    LockReleased,
    RestoreRequested,
    SavepointRequested,
    VacuumFinished,
)
from tidegate.events.wire import Wire
from tidegate.publisher import ConfirmedProducer, Publisher, Receipt
from tidegate.publisher import Message as Outgoing

CLOSED = "127.0.0.1:9"
INSTANT = "20260301100000001"
TABLE: dict[str, Any] = {"table": "Lake.Sales.Orders", "location": "/lake/orders"}
VACUUM: dict[str, Any] = {
    "kind": "minor",
    "directories": ["delta_0000001_0000003"],
    "min_write_id": 1,
    "max_write_id": 3,
    "valid_write_ids": "sales.orders:3:9223372036854775807::",
    "own_lock_id": 7,
    "locks": [{"lock_id": 7}, {"lock_id": 8, "owner": "ana"}],
    "open_transactions": [21],
}
CALLS: list[tuple[Callable[[Publisher], Receipt], str, type[Event]]] = [
    (lambda p: p.commit(**TABLE, instant="20260301100100000"), "commits", CommitCompleted),
    (lambda p: p.vacuum_finished(**TABLE, **VACUUM), "vacuums", VacuumFinished),
    (lambda p: p.lock_released(**TABLE, lock_id=8), "locks", LockReleased),
    (lambda p: p.request_savepoint(**TABLE, requested_by="ana"), "requests", SavepointRequested),
    (
        lambda p: p.request_restore(
            **TABLE, savepoint=INSTANT, requested_by="ana", reason="bad load"
        ),
        "requests",
        RestoreRequested,
    ),
]


def read_back(servers: str, receipt: Receipt) -> Message:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(receipt.topic, receipt.partition, receipt.offset)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message


def as_bytes(value: bytes | str | None) -> bytes:
    assert isinstance(value, bytes)
    return value


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("call", "suffix", "kind"), CALLS, ids=[call[2].__name__ for call in CALLS]
)
def test_a_call_says_where_the_broker_put_its_event(
    bootstrap_servers: str,
    topic_prefix: str,
    call: Callable[[Publisher], Receipt],
    suffix: str,
    kind: type[Event],
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.{suffix}", partitions=3)
    before = datetime.now(UTC)
    with Publisher(bootstrap_servers, source="ingest", prefix=topic_prefix) as publisher:
        receipt = call(publisher)
    message = read_back(bootstrap_servers, receipt)
    event = Wire().deserialize(as_bytes(message.key()), as_bytes(message.value()))

    assert (receipt.topic, receipt.offset) == (f"{topic_prefix}.{suffix}", 0)
    assert (message.topic(), message.key()) == (receipt.topic, b"lake.sales.orders")
    assert (type(event), event.table, event.location) == (kind, "lake.sales.orders", "/lake/orders")
    assert (event.source, before <= event.occurred_at <= datetime.now(UTC)) == ("ingest", True)
    headers = dict(message.headers() or [])
    assert headers.pop("ce_time") is not None
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_id": event.event_id.encode(),
        "ce_type": b"io.tidegate." + kind.__name__.encode(),
        "ce_source": b"ingest",
        "ce_subject": b"lake.sales.orders",
        "content-type": b"application/avro",
    }


@pytest.mark.kafka
def test_the_same_commit_published_twice_has_the_same_event_id(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    with Publisher(bootstrap_servers, source="ingest", prefix=topic_prefix) as publisher:
        first = publisher.commit(**TABLE, instant=INSTANT)
        again = publisher.commit(
            table="lake.sales.orders ", location="/lake/orders", instant=INSTANT
        )
        other = publisher.commit(**TABLE, instant="20260301100000002")

    ids = [
        dict(read_back(bootstrap_servers, receipt).headers() or [])["ce_id"]
        for receipt in (first, again, other)
    ]
    assert [receipt.offset for receipt in (first, again, other)] == [0, 1, 2]
    assert (ids[0] == ids[1], ids[0] == ids[2]) == (True, False)


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_an_error_and_no_silence(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    config = {"delivery.timeout.ms": 3000, "topic.metadata.propagation.max.ms": 500}
    with (
        Publisher(
            bootstrap_servers, source="ingest", prefix=topic_prefix, config=config
        ) as publisher,
        pytest.raises(DeliveryError) as caught,
    ):
        publisher.commit(**TABLE, instant=INSTANT)
    assert "does not exist" in str(caught.value)
    assert "tidegate topics create" in str(caught.value)


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, from its published definition: the Java client's hash of a key."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_this_murmur2_gives_the_values_that_kafkas_own_tests_expect(
    key: bytes, expected: int
) -> None:
    assert murmur2(key) == expected % 2**32


@pytest.mark.kafka
def test_a_key_lies_where_a_java_writer_would_put_it(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, topic_prefix, partitions=7)
    keys = [f"lake.sales.{'x' * (n % 5)}orders_{n}".encode() for n in range(200)]
    producer = ConfirmedProducer({"bootstrap.servers": bootstrap_servers})
    receipts = producer.send([Outgoing(topic_prefix, key, b"") for key in keys])
    producer.close()

    expected = [(murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert [receipt.partition for receipt in receipts] == expected


def test_without_a_broker_that_answers_a_call_raises() -> None:
    config = {"delivery.timeout.ms": 300}
    with (
        Publisher(CLOSED, source="ingest", config=config) as publisher,
        pytest.raises(DeliveryError) as caught,
    ):
        publisher.commit(**TABLE, instant=INSTANT)
    text = str(caught.value)
    away = f"no broker answers at {CLOSED}: Connection refused."
    assert text.startswith(f"1 of 1 messages were not confirmed (tidegate.commits): {away}")
    assert "bootstrap.servers" in text


def test_a_port_that_never_answers_is_named_with_what_to_check() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Publisher(
            where := f"127.0.0.1:{silent.getsockname()[1]}",
            source="ingest",
            config={"delivery.timeout.ms": 300},
        ) as publisher,
        pytest.raises(DeliveryError) as caught,
    ):
        publisher.commit(**TABLE, instant=INSTANT)
    text = str(caught.value)
    assert f"{where} confirmed nothing in time" in text
    assert "tidegate.commits" in text


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("config", "advice"),
    [
        pytest.param(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ana",
                "sasl.password": "wrong",
            },
            "refuses the login: .* Correct security.protocol or sasl",
            id="a login",
        ),
        pytest.param(
            {"security.protocol": "SSL"},
            "no connection to .* Correct security.protocol or ssl",
            id="encryption",
        ),
    ],
)
def test_a_protocol_that_the_broker_does_not_speak_is_named_with_its_setting(
    bootstrap_servers: str, config: dict[str, Any], advice: str
) -> None:
    with (
        Publisher(
            bootstrap_servers, source="ingest", config={"delivery.timeout.ms": 1_000, **config}
        ) as publisher,
        pytest.raises(DeliveryError, match=advice),
    ):
        publisher.commit(**TABLE, instant=INSTANT)


def test_a_broker_that_refuses_is_reported_before_the_call_gives_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"delivery.timeout.ms": 3_000}
    with (
        Publisher(CLOSED, source="ingest", config=config) as publisher,
        pytest.raises(DeliveryError),
    ):
        publisher.commit(**TABLE, instant=INSTANT)
    [warning] = caplog.messages
    assert warning.startswith(f"no broker answers at {CLOSED}: Connection refused.")


def test_an_event_that_cannot_be_is_refused_before_anything_is_sent() -> None:
    # the broker does not answer: had anything been sent, this would be a DeliveryError
    config = {"delivery.timeout.ms": 300}
    with Publisher(CLOSED, source="ingest", config=config) as publisher:
        with pytest.raises(InvalidEventError, match=r"catalog\.database\.table"):
            publisher.commit(table="orders", location="/lake/orders", instant=INSTANT)
        with pytest.raises(InvalidEventError, match="give lock_id, transaction_id or both"):
            publisher.lock_released(**TABLE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param({"directories": ["orders"]}, "orders", id="a directory"),
        pytest.param({"directories": ["delta_1"]}, "delta_1", id="half a directory's name"),
        pytest.param({"directories": ["/lake/base_3"]}, "directories", id="a path"),
        pytest.param({"valid_write_ids": "all"}, "all", id="a snapshot"),
    ],
)
def test_a_vacuum_that_the_cleaner_would_refuse_is_refused_at_its_caller(
    wrong: dict[str, Any], said: str
) -> None:
    config = {"delivery.timeout.ms": 300}
    with (
        Publisher(CLOSED, source="ingest", config=config) as publisher,
        pytest.raises(ValueError, match=said),
    ):
        publisher.vacuum_finished(**TABLE, **(VACUUM | wrong))


@pytest.mark.parametrize("instant", ["1", "~000", "2026-03-01", "202603011001001234"])
def test_an_instant_that_is_not_of_a_timeline_is_refused_at_its_caller(instant: str) -> None:
    config = {"delivery.timeout.ms": 300}
    with (
        Publisher(CLOSED, source="ingest", config=config) as publisher,
        pytest.raises(InvalidEventError, match="instant"),
    ):
        publisher.commit(**TABLE, instant=instant)


def test_a_location_that_is_not_absolute_is_refused_at_its_caller() -> None:
    config = {"delivery.timeout.ms": 300}
    with (
        Publisher(CLOSED, source="ingest", config=config) as publisher,
        pytest.raises(InvalidEventError, match="not an absolute path"),
    ):
        publisher.commit(table="lake.sales.orders", location="orders", instant=INSTANT)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        pytest.param({"instant": "1"}, "write an instant as the timeline does", id="an instant"),
        pytest.param({"operation": "x" * 1001}, "operation: ", id="a text"),
        pytest.param({"table": "orders"}, "catalog.database.table", id="a table"),
        pytest.param({"instant": 20260301100000001}, "instant: write text", id="a number"),
        pytest.param({"action": "upsert"}, "are an operation", id="an operation as the action"),
    ],
)
def test_an_invalid_value_is_named_in_one_line_without_an_address_or_an_expression(
    given: dict[str, Any], advice: str
) -> None:
    values = {**TABLE, "instant": INSTANT, **given}
    with (
        Publisher(CLOSED, source="ingest") as publisher,
        pytest.raises(InvalidEventError) as caught,
    ):
        publisher.commit(**values)
    text = str(caught.value)
    assert text.startswith(f"invalid CommitCompleted: {next(iter(given))}: ")
    assert advice in text
    assert not any(strange in text for strange in ("\n", "http", "^", "input_value"))


def test_an_invalid_address_of_another_system_is_named_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^registry: url: must not contain a user"):
        Publisher(CLOSED, source="ingest", registry="https://ana:pw@registry")
    with (
        Publisher(CLOSED, source="ingest") as publisher,
        pytest.raises(ConfigError, match=r"^metastore or locks: uri: .*thrift://host:port$"),
    ):
        publisher.vacuum_finished(**TABLE, **VACUUM, metastore="nonsense")


@pytest.mark.parametrize(("year", "hours"), [(1, 5), (9999, -5)])
def test_a_time_without_a_year_in_utc_is_refused_at_its_caller(year: int, hours: int) -> None:
    day = (1, 1) if year == 1 else (12, 31)
    at = datetime(year, *day, 23 if year > 1 else 0, tzinfo=timezone(timedelta(hours=hours)))
    event = CommitCompleted(
        **TABLE, instant=INSTANT, action="commit", source="ingest", occurred_at=at
    )
    with (
        Publisher(CLOSED, source="ingest") as publisher,
        pytest.raises(InvalidEventError, match="occurred_at"),
    ):
        publisher.publish(event)


def test_without_a_broker_named_there_is_not_a_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)

    with pytest.raises(ConfigError, match="no broker: give bootstrap_servers"):
        Publisher(source="ingest")
    with pytest.raises(ConfigError, match="to host:port,"):
        Publisher(cast("str", ["127.0.0.1:9"]), source="ingest")


def test_a_setting_that_librdkafka_refuses_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        Publisher(CLOSED, source="ingest", config={"no.such.setting": 1})


class Mortal(Producer):
    """The first of them dies as librdkafka's do after a fatal fault; no broker makes one to order.

    Nothing that it is given goes out any more.
    """

    made: ClassVar[list[Mortal]] = []

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.made.append(self)

    def produce(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the original
        if self is self.made[0]:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of order", fatal=True))
        super().produce(*args, **kwargs)


@pytest.mark.kafka
def test_after_a_fatal_fault_the_next_call_has_a_producer_of_its_own(
    bootstrap_servers: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.commits")
    monkeypatch.setattr("tidegate.publisher.connection.Producer", Mortal)
    with Publisher(bootstrap_servers, source="ingest", prefix=topic_prefix) as publisher:
        with pytest.raises(DeliveryError, match="out of order"):
            publisher.commit(**TABLE, instant=INSTANT)

        assert publisher.commit(**TABLE, instant=INSTANT).offset == 0
