"""Who writes and reads the topics. Access rights and the AsyncAPI document are made from these."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """A service, or a party outside. The value is its Kafka principal's name."""

    UPSTREAM_WRITERS = "upstream-writers"
    """Applications that write the tables, through the publisher."""
    BRIDGES = "bridges"
    """Processes that publish on behalf of writers which can't be changed."""
    PEOPLE = "people"
    """Persons who request savepoints and restores, read what happens, and discard dead letters."""
    OPERATORS = "operators"
    """Persons who repair a deployment: topics, replays, and dead letters that are redriven."""
    MONITORING = "monitoring"
    """Whatever follows the outcomes: dashboards, alerts, audits."""
    COORDINATOR = "coordinator"
    SAVEPOINT_WRITER = "savepoint-writer"
    RESTORER = "restorer"
    CLEANER = "cleaner"


OUTSIDERS: Final = (
    Role.UPSTREAM_WRITERS,
    Role.BRIDGES,
    Role.PEOPLE,
    Role.OPERATORS,
    Role.MONITORING,
)
"""The roles outside of the services; their consumer groups are their own."""
SERVICES: Final = tuple(role for role in Role if role not in OUTSIDERS)
