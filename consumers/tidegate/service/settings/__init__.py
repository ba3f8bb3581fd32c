"""The settings of a deployment: one TOML file, and environment variables that win over it.

Any text may contain `${NAME}`, the value of an environment variable, and `${file:/path}`, the
content of a file, so that no secret is in the settings; `$${` stands for a plain `${`. A variable
TIDEGATE_<section>__<name> wins over the file.

[kafka]                                  # librdkafka's own settings
"bootstrap.servers" = "broker:9092"      # KAFKA_BOOTSTRAP_SERVERS wins over it

[registry]                               # a schema registry; optional
url = "http://registry:8081"
basic_auth = "user:password"
auto_register = true
schema_id_in = "value"                   # or in "headers": the value is then bare Avro
[registry.options]                       # of confluent-kafka's registry client
"ssl.ca.location" = "/etc/ssl/registry.pem"

[topics]
prefix = "tidegate"                      # TIDEGATE_TOPICS__PREFIX wins over it, and so on
partitions = 24
replication = 3

[cleaning]
confirm_with = "metastore"               # the second source: or "quarantine", "nothing"
after_expiry = "quarantine"              # what to do after a lock that expired: or "delete"
keep = "72h"                             # how long a quarantine is kept
[[cleaning.rules]]                       # the first pattern that matches applies; else: delete
tables = "lake.sales.*"
mode = "quarantine"
keep = "7d"

[restores]
requested_by = ["ana", "ops-*"]          # shell patterns of the people who may request a restore
watch_seconds = 5                        # how long a pending write is watched for signs of life
lock_files = [".hoodie/lock"]            # where writers with Hudi's file-system locks have them
lock_expiry = "12h"                      # older ones were left behind; by default none was
hold_lock = true                         # hold Hudi's locks while a restore runs; by default not
[[restores.rules]]                       # the first that covers a table decides
locations = ["/lake/sales"]              # where, since a name is what the requester says
approval = true                          # a second person has to approve each restore
approved_by = ["ana", "ben"]             # shell patterns; never who asked for the restore
approve_within = "24h"                   # of the request, by the broker's times
condemned = "restore"                    # of a CommitCondemned; or "plan", "nothing"
[[restores.rules]]
tables = "lake.bootstrapped.*"
engine = "hudi"                          # Hudi's own procedure, for tables that Tidegate refuses

[warehouse]
roots = ["/lake", "s3://lake/tables"]    # no table outside of these is ever changed
[warehouse.stores."s3://lake"]           # a bucket; credentials come from boto3's own chain
endpoint = "http://minio:9000"
timeout = "60s"                          # of a request and its answer

[spark]
min_items = 256                          # table work with at least this many items runs on Spark
[spark.conf]
"spark.master" = "local[2]"

[[savepoints]]                           # the first pattern that matches a table applies
tables = "lake.sales.*"
policy = "sales"                         # stands in its savepoints; it removes no others
min_gap = "10m"                          # against storms of commits
hourly = { keep = 24 }                   # of each tier the newest is kept, whatever its age
daily = { keep = 7 }
weekly = { keep = 4, lifetime = "60d" }
monthly = { lifetime = "365d" }          # or "forever": Hudi then never cleans those files
before = { operations = ["delete*"], lifetime = "14d" }

[[alarms]]                               # the first pattern that matches a table applies
tables = "lake.sales.*"
overdue_after = "6h"                     # a vacuum waits longer for its readers: VacuumOverdue
unknown_after = "2d"                     # releases, and no vacuum: UnknownTableReleased

[security]                               # else access rights are the only guard
require_signatures = true                # of all that services act on, but for commits
sign_with = "/etc/tidegate/gate.pem"     # this process's own key; people: `publish --sign-with`
[[security.keys]]                        # `tidegate keys new` makes a key and prints such an entry
name = "ana"                             # stands in outcomes, and is compared with requested_by
public_key = '''
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAi1rhVPwDoukAMfi8GYWRskRLvUMaVZCi2hh0gLJf950=
-----END PUBLIC KEY-----'''
roles = ["requester", "approver"]        # what the key is for: see keys new
tables = ["lake.sales.*"]
locations = ["s3://lake/sales"]          # the directories of these tables are in it
not_after = 2027-12-31T00:00:00Z         # a name may have several keys: the old one and the new one

[security.principals]                    # whom `topics acls` grants a role's rights
upstream-writers = ["User:CN=ingest,OU=sales", "User:CN=loader,OU=sales"]
people = ["User:ana", "User:ben"]        # by default User:people, and so on

[services]
threads = 4                              # tables that an executor works on at the same time
stop_seconds = 25                        # a process that was asked to stop has ended by then
instance_id = "host-0"                   # lasting, unique: a restart takes its partitions back
session_timeout_ms = 30000               # ... if it takes no longer than this
[services.retries]                       # of transient faults: for all services ...
longest_wait_ms = 60000
[services.dead_letters]                  # own failures, of `window` valid messages, that stop it
max_failures = 50
window = 100
[services.restorer.retries]              # ... and for one of them
attempts = 300                           # two and a half hours, with jitter

[bridge.metastore]                       # `tidegate bridge metastore`, for Hive
uri = "thrift://metastore:9083"          # several, separated by commas, are tried in order
catalog = "hive"                         # the tables' names in the events: hive.database.table
interval_ms = 2000                       # or "hive.compaction-cleanup-interval" = "2s"
threads = 2                              # or "hive.compaction-cleanup-threads"
readers_lock_at_once = true              # asserts that all engines do, as Hive does
timeout_ms = 10000                       # of a call
[bridge.metastore.tls]                   # where the Metastore has TLS
ca_file = "/etc/ssl/metastore.pem"
[bridge.metastore.kerberos]              # where it has SASL, with the ticket cache's ticket
service = "hive"

[monitoring]                             # /metrics, /livez and /readyz of `tidegate run`
host = "0.0.0.0"                         # by default this machine only
port = 9464                              # without a port there is none
traces = true                            # OpenTelemetry spans; OTEL_* variables say where to
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from tidegate.cleaning.settings import CleaningSettings
from tidegate.coordinator.alarms import AlarmSettings
from tidegate.errors import ConfigError, validation
from tidegate.events.fields import Name, plain_options
from tidegate.events.signature import KeyRole
from tidegate.events.topics import DEFAULT_PARTITIONS, DEFAULT_PREFIX
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.registry import RegistrySettings
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.rules import SavepointRule
from tidegate.service.settings.problems import problems
from tidegate.service.settings.sections import SecuritySettings, ServiceSettings
from tidegate.service.settings.sources import from_environment, from_file, merged
from tidegate.signatures.keys import require_private
from tidegate.storage import normalise
from tidegate.tables.settings import Seconds, Section

FILE_VARIABLE = "TIDEGATE_CONFIG"
SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
SHOWN: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "compression.type",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
    }
)
"""Client settings whose values may be shown. Every other text is treated as a secret: a name that
is mistyped, or of a later version of librdkafka, may hold one."""

_SERVER: Final = re.compile(
    r"(?i:(?:SASL_)?(?:PLAINTEXT|SSL)://)?(?:\[[^]]+\]|[^:/]+)(?::([0-9]{1,5}))?"
)
_KEY_FILES: Final = frozenset({"ssl.key.location", "ssl.keystore.location"})


class _InvalidSettingsError(ConfigError):
    """Settings that can't work: one line a problem. Correct the file or the variable it names."""

    def __init__(self, where: str, lines: Sequence[str]) -> None:
        """Take what the settings were read from, and the problems."""
        self.lines = tuple(f"{where}: {line}" for line in lines)
        super().__init__("\n".join(self.lines))


class TopicSettings(Section, frozen=True):
    """Names and shape of the topics."""

    prefix: str = Field(default=DEFAULT_PREFIX, pattern=validation.PREFIX)
    """What the names of all topics and consumer groups begin with."""
    partitions: int = Field(default=DEFAULT_PARTITIONS, ge=1)
    """Of every topic. It can't be changed later: see docs/topics.md."""
    replication: int = Field(default=1, ge=1)
    """Copies of each partition; 3 in production."""


class _StoreSettings(Section, frozen=True):
    """How a bucket or a cluster is reached."""

    endpoint: str | None = None
    """The URL of the server, for Azure with the account; by default the cloud's own."""
    region: str | None = None
    """By default that of the profile, else us-east-1."""
    path_style: bool | None = None
    """Whether the bucket is in the path. By default, if `endpoint` is set."""
    profile: str | None = None
    """A profile of the configuration of AWS."""
    ca: str | None = None
    """A file of PEM certificates that sign the server's own."""
    timeout: Seconds | None = Field(default=None, gt=0)
    """The limit of a request and its answer, in seconds or as text with a unit: by default 60 s,
    and 20 s for HDFS."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """The limit of requests that a process has under way there; on Spark, a task. By default it has
    no limit, and each thread of an operation sends up to 8 at the same time, to HDFS 4."""


class _WarehouseSettings(Section, frozen=True):
    """Where tables may be changed, and the options of their file systems."""

    roots: tuple[str, ...] = ()
    """Absolute paths or URIs. No table outside of these is ever changed."""
    stores: dict[str, _StoreSettings] = Field(default_factory=dict)
    """How buckets and clusters of HDFS are reached: `[warehouse.stores."s3://lake"]`,
    `[warehouse.stores."hdfs://lake"]`. Credentials of an object store come from the chain of its
    own client: the environment, a profile, a web identity or the instance. GCS (`gs://bucket`) and
    Azure (`abfss://container@account...`) have `endpoint`, `timeout` and `max_concurrency` only.
    HDFS has Hadoop's own configuration (`HADOOP_CONF_DIR`, `HADOOP_USER_NAME`) and here `timeout`
    and `max_concurrency` only."""
    storage: dict[str, dict[str, Any]] = Field(default_factory=dict, repr=False)
    """Options of fsspec's file systems, a table for each protocol. Tables there are only read."""

    @field_validator("stores")
    @classmethod
    def _are_places(cls, stores: dict[str, _StoreSettings]) -> dict[str, _StoreSettings]:
        hdfs = {"timeout", "max_concurrency"}
        cloud = {"endpoint", *hdfs}
        takes = {"hdfs": hdfs, "gs": cloud, "abfss": cloud}
        takes["s3"] = set(_StoreSettings.model_fields)
        for place, store in stores.items():
            scheme = normalise(place).partition(":")[0]
            if scheme not in takes or not re.fullmatch(r"\w+://[^/]+", place):
                raise ValueError(
                    "a store is named s3://bucket, gs://bucket,"
                    " abfss://container@account.dfs.core.windows.net or hdfs://cluster"
                )
            if store.model_fields_set - takes[scheme]:
                raise ValueError(f"{place} takes {' and '.join(sorted(takes[scheme]))} only")
        return stores

    @field_validator("storage")
    @classmethod
    def _are_protocols(cls, storage: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        own = {"s3", "s3a", "s3n", "hdfs", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs"}
        if found := sorted(own & storage.keys()):
            raise ValueError(f'options of {found[0]} are in [warehouse.stores."s3://bucket"]')
        return storage

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """The options of all stores, as `Storage` takes them."""
        places = {
            normalise(place): store.model_dump(exclude_none=True)
            for place, store in self.stores.items()
        }
        return {**self.storage, **places}


class _SparkSettings(Section, frozen=True):
    """The Spark session for table work, started when first needed."""

    min_items: int = Field(default=256, ge=1)
    """Table work with at least this many items runs on Spark; less is done in place."""
    job_seconds: int = Field(default=3600, ge=1)
    """A job that takes longer is cancelled, and the command is tried again later."""
    conf: Annotated[dict[str, str], BeforeValidator(plain_options)] = Field(
        default_factory=dict, repr=False
    )
    """Spark's own settings: `spark.master`, or `spark.remote` for Spark Connect, and others."""


class _MonitoringSettings(Section, frozen=True):
    """The address at which `tidegate run` serves /metrics, /livez and /readyz, if it has a port.

    There is no login: every client that can reach the port can read all of it.
    """

    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all of the machine's."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """The port; without one nothing listens. 0 lets the system choose."""
    tables: tuple[Name, ...] = ("*",)
    """Patterns by which `tidegate monitor` counts what waits: one time series each."""
    notify: tuple[SecretStr, ...] = ()
    """Where `tidegate monitor` sends messages that need a person, as addresses of apprise (the
    extra `notify`): `slack://...`, `pagerduty://...`, `json://host/path` for any webhook."""
    traces: bool = False
    """Export OpenTelemetry spans by OTLP over HTTP, as the variables OTEL_* say."""


class _BridgesSettings(Section, frozen=True):
    """The bridges, each of which runs by itself."""

    metastore: BridgeSettings | None = None
    """The Hive Metastore to watch."""
    hudi: HudiBridgeSettings | None = None
    """The Hudi tables to watch."""

    def has(self, bridge: str) -> bool:
        """Whether a bridge, by its name as a service, is configured."""
        return getattr(self, bridge.removesuffix("-bridge")) is not None


class Settings(Section, frozen=True):
    """All settings; see the module's example. Environment variables count in `load` only."""

    kafka: Annotated[
        dict[str, str | int | bool | SecretStr],
        BeforeValidator(partial(plain_options, fractions=False)),
    ] = Field(default_factory=dict)
    """librdkafka's own settings, by their names: `"bootstrap.servers" = "broker:9092"`."""
    registry: RegistrySettings | None = None
    topics: TopicSettings = TopicSettings()
    warehouse: _WarehouseSettings = _WarehouseSettings()
    spark: _SparkSettings = _SparkSettings()
    savepoints: tuple[SavepointRule, ...] = ()
    restores: RestoreSettings = RestoreSettings()
    cleaning: CleaningSettings = CleaningSettings()
    alarms: tuple[AlarmSettings, ...] = ()
    services: ServiceSettings = ServiceSettings()
    bridge: _BridgesSettings = _BridgesSettings()
    monitoring: _MonitoringSettings = _MonitoringSettings()
    security: SecuritySettings = SecuritySettings()

    @model_validator(mode="after")
    def _approvals_can_be_signed(self) -> Self:
        if not self.security.require_signatures:
            return self
        signers = [key.name for key in self.security.keys if KeyRole.APPROVER in key.roles]
        for rule in self.restores.rules:
            if rule.approval and not any(
                fnmatchcase(name, pattern) for name in signers for pattern in rule.approved_by
            ):
                raise ValueError(
                    f"restores.rules for {rule.about}: an approval is impossible: no key in"
                    " [[security.keys]] of a name in approved_by has the role approver"
                )
        return self

    @field_validator("kafka")
    @classmethod
    def _hide_secrets(
        cls, kafka: dict[str, str | int | bool | SecretStr]
    ) -> dict[str, str | int | bool | SecretStr]:
        for server in filter(None, str(kafka.get("bootstrap.servers", "")).split(",")):
            found = _SERVER.fullmatch(server.strip())
            if found is None or not 0 < int(found[1] or 9092) < 2**16:
                raise ValueError(f"bootstrap.servers: {server!r} is not HOST:PORT")
        return {
            name: SecretStr(value) if isinstance(value, str) and name not in SHOWN else value
            for name, value in kafka.items()
        }

    @classmethod
    def load(cls, file: Path | None = None) -> Self:
        """Read the file named here or in TIDEGATE_CONFIG, and the environment, which wins.

        Raises:
            ConfigError: the file can't be read or is not TOML, a reference can't be resolved, or
                settings are invalid.
        """
        named = file or (Path(where) if (where := os.environ.get(FILE_VARIABLE)) else None)
        content = from_file(named, os.environ) if named else {}
        above = from_environment(cls, os.environ)
        try:
            return cls.model_validate(merged(content, above))
        except ValidationError as error:
            sources = [str(named)] if named else []
            if not named or above.keys() - {"kafka"}:
                sources.append("environment")
            where = " or ".join(sources)
            raise _InvalidSettingsError(where, problems(error, cls)) from None  # it has the values

    def connection(self) -> dict[str, str | int | bool]:
        """Librdkafka's settings for every client, with the secrets in clear text: never log them.

        Raises:
            ConfigError: no broker is configured, or others may read the file of a private key.
        """
        if "bootstrap.servers" not in self.kafka:
            near = get_close_matches("bootstrap.servers", self.kafka, n=1)
            meant = f" (is it meant by {near[0]}?)" if near else ""
            raise ConfigError(
                f"no broker is configured: name the settings file (-c or {FILE_VARIABLE}) and in"
                f' it [kafka] "bootstrap.servers"{meant}, or set {SERVERS_VARIABLE}'
            )
        connection = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self.kafka.items()
        }
        for name in _KEY_FILES & connection.keys():
            require_private(Path(str(connection[name])), f'the key of [kafka] "{name}"')
        return connection

    def shown(self) -> dict[str, Any]:
        """All settings for people, as JSON values: secrets hidden, durations as text."""
        values = self.model_dump(mode="json", exclude_none=True)
        values["warehouse"]["storage"] = _hidden(values["warehouse"]["storage"])
        values["spark"]["conf"] = _hidden(values["spark"]["conf"])
        return values


def _hidden(value: object) -> object:
    """Options of other programs: any may be a secret, so their names alone are shown."""
    if isinstance(value, dict):
        return {name: _hidden(item) for name, item in value.items()}
    return "**********"
