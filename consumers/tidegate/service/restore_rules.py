"""Reads the settings of restores: approvals, condemned commits, and the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.restores.approval import ApprovalRule, ApprovalRules
from tidegate.restores.context import LivenessSettings
from tidegate.restores.hudi_engine import EXTENSION, EngineRule, HudiEngine, restored_by
from tidegate.savepoints.rules import CondemnedAction, CondemnedRule, CondemnedRules
from tidegate.service.settings import Settings
from tidegate.storage import normalise
from tidegate.tables.warehouse.roots import every_spelling, spellings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def restore_settings(settings: Settings) -> LivenessSettings:
    """How the restorer finds out whether a writer is still alive."""
    given = settings.restores
    expiry = given.lock_expiry
    return LivenessSettings(
        lock_files=given.lock_files,
        lock_expiry=None if expiry is None else timedelta(seconds=expiry),
        hold_lock=given.hold_lock,
        watch=timedelta(seconds=given.watch_seconds),
    )


def approval_rules(settings: Settings) -> ApprovalRules:
    """Which restores need the approval of a second person."""
    rules = (
        ApprovalRule(
            _spelled(settings, rule.locations),
            rule.approval,
            rule.approved_by,
            timedelta(seconds=rule.approve_within),
        )
        for rule in settings.restores.rules
    )
    return ApprovalRules(tuple(rules))


def condemned_rules(settings: Settings) -> CondemnedRules:
    """The reaction to condemned commits."""
    rules = (
        CondemnedRule(
            tables=rule.tables,
            locations=_spelled(settings, rule.locations),
            action=CondemnedAction(rule.condemned),
        )
        for rule in settings.restores.rules
    )
    return CondemnedRules(rules=tuple(rules), normalise=normalise)


def restored_by_hudi(settings: Settings, table: str | None, location: str) -> bool:
    """Whether Hudi's own procedure carries out the restores of a table.

    Args:
        settings: The settings.
        table: Its name, catalog.database.table; None: not known.
        location: Where it lies.
    """
    return restored_by(_engine_rules(settings), table, *spellings_of(location))


def _spelled(settings: Settings, locations: Sequence[str]) -> tuple[str, ...]:
    return every_spelling(locations, settings.warehouse.roots)


def _engine_rules(settings: Settings) -> tuple[EngineRule, ...]:
    return tuple(
        EngineRule(
            rule.tables, by_hudi=rule.engine == "hudi", locations=_spelled(settings, rule.locations)
        )
        for rule in settings.restores.rules
    )


def hudi_engine(settings: Settings, session: Callable[[], SparkSession]) -> HudiEngine | None:
    """Hudi's own procedure in a Spark session; None if no rule selects it.

    Raises:
        ConfigError: Spark would not understand the call of it.
    """
    rules = _engine_rules(settings)
    if not any(rule.by_hudi for rule in rules):
        return None
    if EXTENSION not in settings.spark.conf.get("spark.sql.extensions", ""):
        raise ConfigError(
            'engine = "hudi" in [[restores.rules]] needs Hudi in the Spark session: set'
            f' "spark.sql.extensions" = "{EXTENSION}" and "spark.driver.extraClassPath" (the jar of'
            " Hudi's Spark bundle) in [spark.conf]"
        )
    return HudiEngine(session, rules)
