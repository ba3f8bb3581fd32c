"""The HTTP endpoint of a process: metrics, health for supervisors, and its settings."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import make_wsgi_app

from tidegate.errors import ConfigError
from tidegate.runtime.http_server import served

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

    from prometheus_client import CollectorRegistry


Health = tuple[Callable[[], list[str]], Callable[[], list[str]]]
"""What /livez and /readyz ask: why the process should be restarted, and why it does no work now."""


log = logging.getLogger(__name__)


@contextmanager
def serve(
    host: str,
    port: int,
    registry: CollectorRegistry,
    health: Health,
    settings: Mapping[str, object] | None = None,
) -> Generator[int]:
    """Serve while the block runs; returns the port, which the system chooses for port 0.

    Args:
        host: The address to listen on.
        port: The port.
        registry: The metrics.
        health: The checks of /livez and /readyz.
        settings: What /settings returns as JSON. Everyone who reaches the port can read it.

    Raises:
        ConfigError: the address can't be used.
    """
    app = _application(registry, health, json.dumps(settings or {}))
    with ExitStack() as stack:
        try:
            listening = stack.enter_context(served(app, host, port, "monitoring"))
        except OSError as error:
            raise ConfigError(
                f"[monitoring] {host}:{port} can't be used: {error}. Every process needs a port of"
                " its own; TIDEGATE_MONITORING__PORT overrides the file's"
            ) from error
        log.info("metrics, /livez and /readyz on http://%s:%d", host, listening)
        yield listening


def _application(
    registry: CollectorRegistry, health: Health, settings: str
) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)
    checks = dict(zip(("/livez", "/readyz"), health, strict=True))

    def application(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "HEAD":
            application(environ | {"REQUEST_METHOD": "GET"}, start)
            return iter([b""])  # of a list the library would send the length, 0
        if path == "/metrics":
            page: Iterable[bytes] = metrics(environ, start)
            return page
        if path == "/settings":
            return _answer(start, "200 OK", [settings])
        check = checks.get(path)
        if check is None:
            return _answer(start, "404 Not Found", ["/metrics, /livez, /readyz, /settings"])
        problems = check()
        status = "503 Service Unavailable" if problems else "200 OK"
        return _answer(start, status, problems or ["ok"])

    return application


def _answer(start: StartResponse, status: str, lines: list[str]) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return ["".join(f"{line}\n" for line in lines).encode()]
