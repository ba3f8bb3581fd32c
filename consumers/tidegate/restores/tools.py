"""What a restore works with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidegate.fanout import FanOut
from tidegate.restores.liveness import RestoreSettings
from tidegate.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Tools:
    """What may be changed, what does much at once, the time (aware), the settings, and patience.

    `wait` lets a number of seconds pass.
    """

    warehouse: Warehouse
    fan_out: FanOut
    clock: Callable[[], datetime]
    settings: RestoreSettings
    wait: Callable[[float], None] = time.sleep
