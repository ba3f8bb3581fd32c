"""How a schema registry is reached, and what may be done there."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, field_validator

_TIMEOUT_SECONDS: Final = 10


class RegistrySettings(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A schema registry. With one, events are written in the Confluent wire format."""

    url: str = Field(min_length=1)
    """Its address; several, separated by commas, are tried in turn."""
    basic_auth: SecretStr | None = None
    """`user:password`."""
    auto_register: bool = True
    """Register a schema at its first use; else only look it up."""
    schema_id_in: Literal["value", "headers"] = "value"
    """Where a message names its schema: before the Avro body, or in the header `__value_schema_id`
    with the body alone as the value, for readers that take bare Avro. Both are read, always."""
    options: dict[str, SecretStr | int | float | bool] = Field(default_factory=dict)
    """Further options of confluent-kafka's registry client: `ssl.ca.location`, `proxy` ..."""

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, url: str) -> str:
        if any(urlsplit(each).password for each in url.split(",")):
            raise ValueError(
                "an address is shown in messages: name user and password in basic_auth"
            )
        return url

    def client(self) -> dict[str, str | int | float | bool]:
        """Give the configuration of confluent-kafka's client, with the secrets in the clear.

        The client's own retries are off, because our callers retry, and it gets a time-out, because
        by default it would wait for ever.
        """
        told = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self.options.items()
        }
        auth = (
            {"basic.auth.user.info": self.basic_auth.get_secret_value()} if self.basic_auth else {}
        )
        return {"max.retries": 0, "timeout": _TIMEOUT_SECONDS, **told, **auth, "url": self.url}
