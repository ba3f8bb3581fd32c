"""Whether a process works: what a supervisor and a load balancer ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

POLL_LIMIT_SECONDS: Final = 300.0
"""A member that has not polled for so long is put out of its group (max.poll.interval.ms)."""


class HealthChecks(Protocol):
    """What /livez and /readyz ask."""

    def not_live(self) -> list[str]:
        """Why the process should be restarted; empty if it should not."""
        ...

    def not_ready(self) -> list[str]:
        """Why it does not do its work now; empty if it does."""
        ...


class ServiceHealth:
    """One service of this process; written by its loop, read by anybody."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start as one that has just polled and owns nothing yet."""
        self._clock = clock
        self._polled = clock()
        self._joined = threading.Event()

    def polled(self) -> None:
        """Its loop asked for records."""
        self._polled = self._clock()

    def joined(self) -> None:
        """The group has given it its partitions, or none, and their state is restored."""
        self._joined.set()

    def left(self) -> None:
        """It owns nothing until the group gives it partitions again."""
        self._joined.clear()

    @property
    def is_ready(self) -> bool:
        """Whether it is a member of its group, with its state restored."""
        return self._joined.is_set()

    @property
    def seconds_since_poll(self) -> float:
        """How long ago it polled."""
        return self._clock() - self._polled


class Health:
    """The health of a process: of all its services."""

    def __init__(self, services: Mapping[str, ServiceHealth]) -> None:
        """Take the services by name."""
        self._services = services

    def not_live(self) -> list[str]:
        """Why the process should be restarted; empty if it should not.

        A broker that is down is not a reason: the services wait for it.
        """
        return [
            f"{name}: has not polled for {service.seconds_since_poll:.0f} s"
            for name, service in self._services.items()
            if service.seconds_since_poll > POLL_LIMIT_SECONDS
        ]

    def not_ready(self) -> list[str]:
        """Which services do not consume yet, or not now; empty if all do."""
        waiting = [name for name, service in self._services.items() if not service.is_ready]
        return [f"{name}: has no partitions from its group yet" for name in waiting]
