"""Every service by its name, put together from the settings."""

from __future__ import annotations

from tidegate.services.assembly import DECIDERS, EXECUTORS, HEARD, SERVICES, Loop, assemble
from tidegate.services.running import run_services

__all__ = [
    "DECIDERS",
    "EXECUTORS",
    "HEARD",
    "SERVICES",
    "Loop",
    "assemble",
    "run_services",
]
