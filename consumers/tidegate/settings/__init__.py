"""The settings of a deployment, read from one TOML file.

[kafka]                                  # librdkafka's own settings, passed through
"bootstrap.servers" = "broker:9092"

[registry]                               # a schema registry; without one nothing else has to run
url = "http://registry:8081"
basic_auth = "user:password"
auto_register = true
schema_id_in = "value"                   # or in "headers": the value is then the Avro body alone
[registry.options]                       # of confluent-kafka's registry client, passed through
"ssl.ca.location" = "/etc/ssl/registry.pem"

[topics]
prefix = "tidegate"
partitions = 6
replication = 3

[restores]
requested_by = ["ana", "ops-*"]          # shell patterns of the people who may ask for a restore
watch_seconds = 5                        # how long a pending write is watched for a sign of life

[warehouse]
roots = ["/lake", "s3://lake/tables"]    # nothing outside of these is ever changed
[warehouse.storage.s3]                   # fsspec's options, a table a protocol
endpoint_url = "http://minio:9000"

[spark]
from_items = 256                         # table work of at least so many items runs on Spark
[spark.conf]
"spark.master" = "local[2]"

[[savepoints]]                           # the first pattern that matches a table decides
tables = "lake.sales.*"
when = "every_commit"

[services]
threads = 4                              # tables that an executor works on at the same time
[services.retries]                       # of faults that may pass: of all services ...
longest_wait_ms = 60000
[services.dead_letters]                  # more than `most` of the last `of` messages stop a service
most = 50
of = 100
[services.restorer.retries]              # ... and of one of them
attempts = 300                           # two and a half hours, jitter included
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator

from tidegate.errors import ConfigError
from tidegate.events.topics import DEFAULT_PARTITIONS, DEFAULT_PREFIX
from tidegate.registry import RegistrySettings
from tidegate.settings.section import Section
from tidegate.settings.services import ServiceSettings

FILE_VARIABLE = "TIDEGATE_CONFIG"
SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
# librdkafka's settings whose values are secrets, now or in a version to come
_SECRET: Final = re.compile(r"password|secret|token|jaas|oauthbearer\.config|key\.pem")


class TopicSettings(Section, frozen=True):
    """How the topics are named and made."""

    prefix: str = DEFAULT_PREFIX
    partitions: int = Field(default=DEFAULT_PARTITIONS, ge=1)
    replication: int = Field(default=1, ge=1)


class WarehouseSettings(Section, frozen=True):
    """Where tables may be changed, and how their file systems are reached."""

    roots: tuple[str, ...] = ()
    storage: dict[str, dict[str, Any]] = Field(default_factory=dict, repr=False)


class SparkSettings(Section, frozen=True):
    """The session for table work, started when there is work for it."""

    from_items: int = Field(default=256, ge=1)
    conf: dict[str, str] = Field(default_factory=dict, repr=False)


class SavepointRule(Section, frozen=True):
    """When the tables whose identity matches a shell pattern get savepoints by themselves."""

    tables: str
    when: Literal["every_commit", "on_request"]


class RestoreSettings(Section, frozen=True):
    """Who may have a table restored, and how long a pending write is watched before it is.

    `requested_by` are shell patterns of the names that requests are made in.
    """

    requested_by: tuple[str, ...] = ("*",)
    watch_seconds: float = Field(default=5, ge=0, allow_inf_nan=False)


class Settings(Section, frozen=True):
    """All settings; see the module's example."""

    kafka: dict[str, str | int | bool | SecretStr] = Field(default_factory=dict)
    registry: RegistrySettings | None = None
    topics: TopicSettings = TopicSettings()
    warehouse: WarehouseSettings = WarehouseSettings()
    spark: SparkSettings = SparkSettings()
    savepoints: tuple[SavepointRule, ...] = ()
    restores: RestoreSettings = RestoreSettings()
    services: ServiceSettings = ServiceSettings()

    @field_validator("kafka")
    @classmethod
    def _hide_secrets(
        cls, kafka: dict[str, str | int | bool | SecretStr]
    ) -> dict[str, str | int | bool | SecretStr]:
        return {
            name: SecretStr(value) if isinstance(value, str) and _SECRET.search(name) else value
            for name, value in kafka.items()
        }

    @classmethod
    def load(cls, file: Path | None = None) -> Self:
        """Read the file named here or in TIDEGATE_CONFIG; KAFKA_BOOTSTRAP_SERVERS wins over it.

        Raises:
            ConfigError: the file is not there, is no TOML, or holds a setting that can't be.
        """
        named = file or (Path(where) if (where := os.environ.get(FILE_VARIABLE)) else None)
        try:
            told = tomllib.loads(named.read_text("utf-8")) if named else {}
            settings = cls.model_validate(told)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{named}: {error}") from error
        except ValidationError as error:
            raise ConfigError(f"{named}: {_problems(error)}") from error
        if servers := os.environ.get(SERVERS_VARIABLE):
            return settings.model_copy(
                update={"kafka": {**settings.kafka, "bootstrap.servers": servers}}
            )
        return settings

    def connection(self) -> dict[str, str | int | bool]:
        """Give librdkafka's settings for every client, with the secrets in clear: never log them.

        Raises:
            ConfigError: no broker is named.
        """
        if "bootstrap.servers" not in self.kafka:
            raise ConfigError(f'name a broker: {SERVERS_VARIABLE}, or "bootstrap.servers"')
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self.kafka.items()
        }


def _problems(error: ValidationError) -> str:
    """What is wrong, without the values: they may be secrets."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    )
