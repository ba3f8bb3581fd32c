"""The environment of a restore: warehouse, clock and settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidegate.restores.hudi_engine import Session
from tidegate.restores.settings import RestoreSettings
from tidegate.storage import ParallelMap
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RestoreContext:
    """The warehouse, the parallel map, the clock (aware times) and the settings of a restorer.

    `wait` blocks for the given number of seconds. `hudi` restores the tables for
    which the settings select Hudi's own procedure. `claim` is the task's claim of the table.
    """

    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    settings: RestoreSettings
    wait: Callable[[float], None] = time.sleep
    hudi: Session | None = None
    claim: AnyClaim = NO_CLAIM
