"""Check the Kafka client settings, and how services join their consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import SecretStr

from tidegate.ops.doctor.finding import Finding, Status
from tidegate.publisher.client_settings import overridden_settings
from tidegate.service.assembly import instance_ids
from tidegate.service.settings import Settings

_CHECK = "client settings"
_RESTART_MS: Final = 10_000
"""The time of a usual restart: a supervisor's pause, the imports, the first poll."""


def check_client_settings(settings: Settings) -> Finding:
    """Whether [kafka] overrides a setting on which Tidegate's guarantees rest."""
    connection = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings.kafka.items()
    }
    if broken := list(overridden_settings(connection)):
        advice = "remove these from [kafka]: the services refuse to start with them"
        return Finding(_CHECK, Status.FAIL, "; ".join(broken), advice)
    return Finding(_CHECK, Status.OK, "none of them breaks a guarantee")


def check_membership(settings: Settings, services: Sequence[str]) -> Finding:
    """Whether a restarted service gets its partitions back, and whether its time-out suffices."""
    check, timeout_ms = "membership", settings.services.session_timeout_ms
    static = instance_ids(settings, services)
    if not static:
        seen = "dynamic: a restart rebalances twice, and a crash is noticed after"
        return Finding(check, Status.OK, f"{seen} {timeout_ms / 1000:g} s")
    seen = (
        f"static: {', '.join(static.values())}; a process that stops keeps its partitions for"
        f" {timeout_ms / 1000:g} s"
    )
    if timeout_ms < _RESTART_MS:
        advice = "raise [services] session_timeout_ms above the time that a restart takes"
        return Finding(check, Status.WARN, seen, advice)
    return Finding(check, Status.OK, seen)
