"""The monitoring of one process of `tidegate run`: its metrics, its health, and who serves them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from tidegate.monitoring.endpoint import serve
from tidegate.monitoring.health import Health, ServiceHealth
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import ObservedService


class ProcessMonitoring:
    """Measures the services of this process."""

    def __init__(self, executors: Iterable[str]) -> None:
        """Take the names of the services that execute commands; the others are deciders."""
        self.metrics = Metrics()
        self._executors = frozenset(executors)
        self._services: dict[str, ServiceHealth] = {}

    def service(self, name: str) -> ObservedService:
        """Begin to measure a service of this process."""
        health = self._services[name] = ServiceHealth()
        return ObservedService(name, self.metrics, health, executes=name in self._executors)

    @contextmanager
    def serve(self, host: str, port: int) -> Generator[int]:
        """Answer /metrics, /livez and /readyz while the block runs; gives the port.

        Raises:
            ConfigError: the address can't be used.
        """
        with serve(host, port, self.metrics.registry, Health(self._services)) as chosen:
            yield chosen
