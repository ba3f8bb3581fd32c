"""The client settings on which Tidegate's guarantees rest: one table, for every Kafka client.

A deployment may set anything else of librdkafka. These may only have the values named here; another
value would not fail, it would lose events silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events.topics import PARTITIONER

ClientConfig = Mapping[str, str | int | bool]
"""librdkafka's settings by name."""
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")


@dataclass(frozen=True, slots=True)
class ProtectedSetting:
    """A setting that may not be overridden."""

    name: str
    allowed: tuple[str, ...]
    """The allowed values; empty: the setting must not be set at all."""
    reason: str
    """The consequence of another value."""
    aliases: tuple[str, ...] = ()
    """librdkafka's other names for it, and topic settings with the same effect."""


PROTECTED_SETTINGS: Final = (
    ProtectedSetting(
        "acks",
        ("all", "-1"),
        "an event is confirmed only when every in-sync replica has it",
        ("request.required.acks",),
    ),
    ProtectedSetting(
        "enable.idempotence",
        _TRUE,
        "the producer's own retries would duplicate and reorder events",
    ),
    ProtectedSetting(
        "partitioner",
        (PARTITIONER, "murmur2"),
        "JVM and Python writers must put a table's events on the same partition",
    ),
    ProtectedSetting(
        "transactional.id",
        (),
        "each owner of a changelog takes a new one, so that its successor can fence it",
    ),
    ProtectedSetting(
        "enable.auto.commit",
        _FALSE,
        "offsets are committed only when the work is done; a crash would lose events",
        ("auto.commit.enable",),
    ),
    ProtectedSetting(
        "enable.auto.offset.store",
        _FALSE,
        "offsets are committed only when the work is done; a crash would lose events",
    ),
    ProtectedSetting(
        "auto.offset.reset",
        ("error",),
        "a gap in a topic must stop the service; it would be skipped silently",
    ),
    ProtectedSetting(
        "partition.assignment.strategy",
        ("range",),
        "partition n of all input topics must go to the same member",
    ),
    ProtectedSetting(
        "group.protocol",
        ("classic",),
        "partition n of all input topics must go to the same member",
    ),
    ProtectedSetting(
        "group.remote.assignor",
        (),
        "partition n of all input topics must go to the same member",
    ),
    ProtectedSetting(
        "group.instance.id",
        (),
        "all services and processes would share one id, and Kafka would expel all but one",
    ),
    ProtectedSetting(
        "isolation.level",
        ("read_committed",),
        "records of aborted transactions would be taken for events",
    ),
    ProtectedSetting(
        "enable.partition.eof",
        _TRUE,
        "a service would not notice the end of a partition behind a transaction's marker",
    ),
    ProtectedSetting(
        "allow.auto.create.topics",
        _FALSE,
        "a topic that is missing would be created with one partition and the broker's defaults",
    ),
    ProtectedSetting(
        "delivery.report.only.error",
        _FALSE,
        "a publisher waits for the confirmation of each event",
    ),
)
_BY_NAME: Final = {
    name: setting for setting in PROTECTED_SETTINGS for name in (setting.name, *setting.aliases)
}
_PREFIXES: Final = ("topic.", "default.topic.")


def overridden_settings(config: ClientConfig) -> Iterator[str]:
    """One sentence per setting that breaks a guarantee: its value, the required value, and why.

    Names are compared as librdkafka's documentation writes them, in any letter case.
    """
    for name, value in config.items():
        protected = _BY_NAME.get(_plain(name))
        if protected is None or str(value).strip().lower() in protected.allowed:
            continue
        must = f"must be {protected.allowed[0]}" if protected.allowed else "must not be set"
        yield f"{name} = {value} {must}: {protected.reason}"


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
