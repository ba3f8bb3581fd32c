"""Do the client settings break a guarantee."""

from __future__ import annotations

from pydantic import SecretStr

from tidegate.ops.doctor.finding import Finding, Status
from tidegate.publisher.client_settings import overridden_settings
from tidegate.service.settings import Settings

_CHECK = "client settings"


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
