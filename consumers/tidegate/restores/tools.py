"""What a restore works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidegate.fanout import FanOut
from tidegate.restores.liveness import RestoreSettings
from tidegate.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Tools:
    """What may be changed, what does much at once, the time (aware), and the settings."""

    warehouse: Warehouse
    fan_out: FanOut
    clock: Callable[[], datetime]
    settings: RestoreSettings
