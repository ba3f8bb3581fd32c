"""Client settings on which the guarantees rest can't be overridden by a deployment."""

from __future__ import annotations

import pytest

from tidegate.errors import ConfigError
from tidegate.publisher import ConfirmedProducer, Publisher
from tidegate.publisher.client_settings import PROTECTED_SETTINGS, ClientConfig, overridden_settings
from tidegate.publisher.delivery import DEFAULTS
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.subscription import CONSUMER

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
BREAKING: list[ClientConfig] = [
    {"acks": 1},
    {"acks": "0"},
    {"request.required.acks": 1},
    {"topic.acks": "1"},
    {"enable.idempotence": False},
    {"enable.auto.commit": True},
    {"Enable.Auto.Commit": "true"},
    {"auto.commit.enable": "1"},
    {"enable.auto.offset.store": True},
    {"auto.offset.reset": "latest"},
    {"auto.offset.reset": "earliest"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"partition.assignment.strategy": "range,roundrobin"},
    {"group.protocol": "consumer"},
    {"group.remote.assignor": "uniform"},
    {"isolation.level": "read_uncommitted"},
    {"transactional.id": "mine"},
    {"partitioner": "consistent_random"},
    {"allow.auto.create.topics": True},
    {"enable.partition.eof": False},
    {"delivery.report.only.error": True},
    {"group.instance.id": "one"},
]


@pytest.mark.parametrize("config", BREAKING, ids=str)
def test_a_setting_that_breaks_a_guarantee_is_refused_before_anything_connects(
    config: ClientConfig,
) -> None:
    [name] = config
    with pytest.raises(ConfigError, match=f"{name} = .* must (not )?be "):
        KafkaBus({**NOWHERE, **config})
    with pytest.raises(ConfigError, match=f"{name} = .* must (not )?be "):
        ConfirmedProducer({**NOWHERE, **config})
    with pytest.raises(ConfigError, match=f"{name} = .* must (not )?be "):
        Publisher("127.0.0.1:1", source="test", config=config)


def test_every_setting_that_breaks_a_guarantee_is_listed_with_its_reason() -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaBus(
            {**NOWHERE, "acks": 1, "auto.offset.reset": "latest"}, {"enable.auto.commit": True}
        )

    assert str(caught.value) == (
        "Kafka client settings that can't be overridden: "
        "acks = 1 must be all: an event is confirmed only when every in-sync replica has it; "
        "auto.offset.reset = latest must be error: a gap in a topic must stop the service; it would"
        " be skipped silently; "
        "enable.auto.commit = True must be false: offsets are committed only when the work is done;"
        " a crash would lose events"
    )


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"acks": -1, "enable.auto.commit": "False"}, id="the required values"),
        pytest.param({"linger.ms": 5, "security.protocol": "ssl"}, id="anything else"),
        pytest.param(DEFAULTS, id="our producers' own"),
        pytest.param(CONSUMER, id="our consumers' own"),
    ],
)
def test_what_breaks_no_guarantee_is_accepted(config: ClientConfig) -> None:
    assert list(overridden_settings(config)) == []


def test_our_own_clients_set_every_protected_setting_that_has_a_value() -> None:
    own = {**DEFAULTS, **CONSUMER}
    by_default = {"group.protocol", "delivery.report.only.error"}

    needed = {name for name, (allowed, _) in PROTECTED_SETTINGS.items() if allowed}
    assert needed - by_default <= own.keys()
