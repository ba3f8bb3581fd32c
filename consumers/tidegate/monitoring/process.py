"""The monitoring of one process of `tidegate run`: its metrics, its health, and who serves them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.monitoring.catalog import PROCESS_METRICS, Metric
from tidegate.monitoring.endpoint import ServiceHealth, health_of, serve
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import ObservedService

if TYPE_CHECKING:  # OpenTelemetry is an extra
    from tidegate.monitoring.tracing import Traces


def _exporting() -> Callable[[str], Traces]:
    try:
        from tidegate.monitoring.tracing import Traces, exporting_tracer  # noqa: PLC0415 - an extra

        return partial(Traces, exporting_tracer())
    except ImportError as error:
        raise ConfigError(
            "[monitoring] traces needs OpenTelemetry: pip install 'tidegate[otel]'"
        ) from error


class ProcessMonitoring:
    """Measures the services of this process."""

    def __init__(
        self, executors: Iterable[str], *, traces: bool = False, more: Sequence[Metric] = ()
    ) -> None:
        """Take which services execute commands, whether to export spans, and further metrics.

        Raises:
            ConfigError: OpenTelemetry is not installed.
        """
        self.metrics = Metrics((*PROCESS_METRICS, *more))
        self._traces_of = _exporting() if traces else None
        self._executors = frozenset(executors)
        self._services: dict[str, ServiceHealth] = {}

    def service(self, name: str) -> ObservedService:
        """Begin to measure a service of this process."""
        health = self._services[name] = ServiceHealth()
        traces = self._traces_of(name) if self._traces_of else None
        executes = name in self._executors
        return ObservedService(name, self.metrics, health, executes=executes, traces=traces)

    @contextmanager
    def serve(
        self, host: str, port: int, settings: Mapping[str, object] | None = None
    ) -> Generator[int]:
        """Answer /metrics, /livez, /readyz and /settings while the block runs; returns the port.

        Raises:
            ConfigError: the address can't be used.
        """
        health = health_of(self._services)
        with serve(host, port, self.metrics.registry, health, settings) as chosen:
            yield chosen
