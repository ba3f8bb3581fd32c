"""The client settings on which Tidegate's guarantees rest: one table, for every Kafka client.

A deployment may set anything else of librdkafka. These may only have the values named here; another
value would not fail, it would lose events silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events.topics import PARTITIONER

ClientConfig = Mapping[str, str | int | bool]
"""librdkafka's settings by name."""
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")
_COMMITS: Final = "offsets are committed only when the work is done; a crash would lose events"
_ASSIGNMENT: Final = "partition n of all input topics must go to the same member"

PROTECTED_SETTINGS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "acks": (("all", "-1"), "an event is confirmed only when every in-sync replica has it"),
    "enable.idempotence": (_TRUE, "the producer's own retries would duplicate and reorder events"),
    "partitioner": (
        (PARTITIONER, "murmur2"),
        "JVM and Python writers must put a table's events on the same partition",
    ),
    "transactional.id": (
        (),
        "each owner of a changelog takes a new one, so that its successor can fence it",
    ),
    "enable.auto.commit": (_FALSE, _COMMITS),
    "enable.auto.offset.store": (_FALSE, _COMMITS),
    "auto.offset.reset": (
        ("error",),
        "a gap in a topic must stop the service; it would be skipped silently",
    ),
    "partition.assignment.strategy": (("range",), _ASSIGNMENT),
    "group.protocol": (("classic",), _ASSIGNMENT),
    "group.remote.assignor": ((), _ASSIGNMENT),
    "group.instance.id": (
        (),
        "all services and processes would share one id, and Kafka would expel all but one",
    ),
    "isolation.level": (
        ("read_committed",),
        "records of aborted transactions would be taken for events",
    ),
    "enable.partition.eof": (
        _TRUE,
        "a service would not notice the end of a partition behind a transaction's marker",
    ),
    "allow.auto.create.topics": (
        _FALSE,
        "a topic that is missing would be created with one partition and the broker's defaults",
    ),
    "delivery.report.only.error": (_FALSE, "a publisher waits for the confirmation of each event"),
}
"""By setting, the allowed values (none: it must not be set at all), and what others would do."""
_ALIASES: Final = {"request.required.acks": "acks", "auto.commit.enable": "enable.auto.commit"}
"""librdkafka's other names, and topic settings with the same effect."""
_PREFIXES: Final = ("topic.", "default.topic.")


def overridden_settings(config: ClientConfig) -> Iterator[str]:
    """One sentence per setting that breaks a guarantee: its value, the required value, and why.

    Names are compared as librdkafka's documentation writes them, in any letter case.
    """
    for name, value in config.items():
        plain = _plain(name)
        allowed, reason = PROTECTED_SETTINGS.get(_ALIASES.get(plain, plain), (None, ""))
        if allowed is None or str(value).strip().lower() in allowed:
            continue
        must = f"must be {allowed[0]}" if allowed else "must not be set"
        yield f"{name} = {value} {must}: {reason}"


def require_protected_settings(config: ClientConfig) -> None:
    """Refuse client settings that break a guarantee.

    Raises:
        ConfigError: it lists every such setting with its reason.
    """
    if broken := list(overridden_settings(config)):
        raise ConfigError("Kafka client settings that can't be overridden: " + "; ".join(broken))


def _plain(name: str) -> str:
    lower = name.strip().lower()
    for prefix in _PREFIXES:
        lower = lower.removeprefix(prefix)
    return lower
