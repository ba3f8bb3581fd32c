"""Check that the Metastore answers, its own Cleaner is off, and a bridge watches this Metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tidegate.bridges.position import group_of, stored_position
from tidegate.errors import MetastoreRefusedError, TransientError
from tidegate.errors.commands import command_line
from tidegate.hive_bridge.baseline import Baseline, MetastoreReplacedError
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.settings import addresses
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Check, Finding, Status

_CLEANER: Final = "metastore.compactor.cleaner.on"
_INITIATOR: Final = "metastore.compactor.initiator.on"
_LOCKLESS: Final = "hive.acid.lockless.reads.enabled"


def metastore_checks(settings: BridgeSettings | None, broker: Broker | None) -> Iterator[Check]:
    """The checks of `[bridge.metastore]`; empty if it is not configured."""
    if settings is None:
        return
    seconds = 5 + settings.timeout_ms / 250
    for host, port in addresses(settings.uri):
        where = f"{host}:{port}"
        one = settings.model_copy(update={"uri": f"thrift://{_bracketed(host)}:{port}"})
        yield Check(f"metastore {where}", partial(_check_answers, one), seconds)
        yield Check(f"hive cleaner {where}", partial(_check_cleaner, one), seconds)
    if broker is not None:
        yield Check("metastore bridge", partial(check_bridge, settings, broker), 60.0)


def _check_answers(settings: BridgeSettings) -> Finding:
    """Whether one instance of the Metastore answers."""
    try:
        with MetastoreClient(settings) as client:
            found = client.snapshot()
    except (TransientError, MetastoreRefusedError) as error:
        advice = "start it, or correct [bridge.metastore]: uri, tls, kerberos"
        return Finding(Status.FAIL, str(error), advice)
    seen = (
        f"the database {found.metastore}: {len(found.locks)} locks,"
        f" {len(found.transactions.open)} open transactions,"
        f" {sum(compaction.is_visible for compaction in found.compactions)} compactions ready for"
        " cleaning"
    )
    return Finding(Status.OK, seen)


def _check_cleaner(settings: BridgeSettings) -> Finding:
    try:
        with MetastoreClient(settings) as client:
            return judge_cleaner(client.setting)
    except TransientError as error:
        return Finding(Status.SKIPPED, str(error))


def judge_cleaner(setting: Callable[[str], str | None]) -> Finding:
    """Whether this instance runs Hive's own Cleaner, by its settings. Pure.

    Hive 4 has a setting for it. Before Hive 4, the Cleaner started together with the Initiator.
    """
    cleaner, initiator = setting(_CLEANER), setting(_INITIATOR)
    if _is_on(cleaner) or (cleaner is None and _is_on(initiator)):
        name = _CLEANER if cleaner is not None else _INITIATOR
        return Finding(
            Status.FAIL,
            f"Hive's own Cleaner runs here ({name} is true): it removes directories by its own"
            " rules, and marks what Tidegate has not cleaned",
            f"set {name}=false ({name.replace('metastore.', 'hive.', 1)} in hive-site.xml) for"
            " every instance, and restart them",
        )
    if _is_on(setting(_LOCKLESS)):
        return Finding(
            Status.WARN,
            f"{_LOCKLESS} is true: readers take no locks, so Tidegate waits for every transaction;"
            " and only Hive's Cleaner removes the directories of tables and partitions that are"
            " dropped without waiting",
            "turn it off, or remove the directories of dropped tables by hand",
        )
    if cleaner is None and initiator is None:
        seen = "this Metastore does not report its settings"
        advice = f"make sure that {_CLEANER} and {_INITIATOR} are false where they are set"
        return Finding(Status.WARN, seen, advice)
    return Finding(Status.OK, "Hive's own Cleaner is off")


def check_bridge(settings: BridgeSettings, broker: Broker) -> Finding:
    """Whether a bridge runs, and whether it has watched this Metastore."""
    prefix = broker.topics.prefix
    members = broker.groups.members(group_of(prefix))
    try:
        stored = stored_position(broker.connection, prefix)
        known = Baseline.parse(stored.text if stored else "")
        with MetastoreClient(settings) as client:
            known.checked(client.snapshot())
    except MetastoreReplacedError as error:
        advice = f"see: {command_line('bridge accept-metastore', help=True)}"
        return Finding(Status.FAIL, str(error), advice)
    except (TransientError, MetastoreRefusedError) as error:
        return Finding(Status.SKIPPED, str(error))
    if not members:
        seen = "no bridge runs: no vacuum or release of a lock is published"
        return Finding(Status.WARN, seen, f"start: {command_line('bridge metastore')}")
    before = "" if known != Baseline() else "; it has not polled yet"
    return Finding(Status.OK, f"{len(members)} run, one of them active{before}")


def _is_on(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
