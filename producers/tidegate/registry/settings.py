"""The settings of a schema registry."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator

_TIMEOUT_SECONDS: Final = 10


class RegistrySettings(
    BaseModel,
    frozen=True,
    extra="forbid",
    hide_input_in_errors=True,
):
    """A schema registry; with one, events are written in the Confluent wire format."""

    url: str = Field(min_length=1)
    """Its address; several, separated by commas, are tried in order."""
    basic_auth: SecretStr | None = None
    """`user:password`."""
    auto_register: bool = True
    """Register a schema at its first use; otherwise only look it up."""
    schema_id_in: Literal["value", "headers"] = "value"
    """Where a message carries the schema's id: before the Avro body, or in the header
    `__value_schema_id` with the body alone as the value. Readers accept both."""
    options: dict[str, SecretStr | int | float | bool] = Field(default_factory=dict)
    """Further options of confluent-kafka's registry client: `ssl.ca.location`, `proxy` ..."""

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, url: str) -> str:
        parts = [urlsplit(part.strip()) for part in url.split(",")]
        if any("@" in part.netloc or part.query or part.fragment for part in parts):
            raise ValueError(
                "must not contain a user, password or token, because addresses appear in logs: use"
                " basic_auth, or bearer.auth.token in options"
            )
        return url

    def client(self) -> dict[str, str | int | float | bool]:
        """The configuration of confluent-kafka's client, with secrets in clear text: never log it.

        The client's own retries are off, because callers retry; it has a time-out, because its
        default is to wait forever.
        """
        options = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self.options.items()
        }
        auth = (
            {"basic.auth.user.info": self.basic_auth.get_secret_value()} if self.basic_auth else {}
        )
        return {"max.retries": 0, "timeout": _TIMEOUT_SECONDS, **options, **auth, "url": self.url}
