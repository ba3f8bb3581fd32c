"""The HTTP endpoint: metrics for Prometheus, health for supervisors."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tidegate.errors import ConfigError
from tidegate.monitoring.catalog import RECORDS
from tidegate.monitoring.endpoint import serve
from tidegate.monitoring.metrics import Metrics
from tidegate.monitoring.observed import POLL_LIMIT_SECONDS, ObservedService, health_of


@pytest.fixture
def gate() -> ObservedService:
    return ObservedService("gate", Metrics())


@pytest.fixture
def port(gate: ObservedService) -> Iterator[int]:
    with serve("127.0.0.1", 0, Metrics().registry, health_of([gate])) as chosen:
        yield chosen


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_are_served(port: int) -> None:
    status, page = get(port, "/metrics")

    assert status == 200
    assert "tidegate_build_info{version=" in page
    assert "process_resident_memory_bytes" in page


def test_a_service_is_ready_while_it_has_its_partitions(port: int, gate: ObservedService) -> None:
    assert get(port, "/readyz") == (503, "gate: has no partitions from its group yet\n")
    gate.is_ready = True
    assert get(port, "/readyz") == (200, "ok\n")
    gate.is_ready = False
    assert get(port, "/readyz")[0] == 503


def test_a_service_that_polls_no_more_is_not_live(port: int, gate: ObservedService) -> None:
    assert get(port, "/livez") == (200, "ok\n")
    gate.last_poll -= POLL_LIMIT_SECONDS + 1
    assert get(port, "/livez") == (503, "gate: has not polled for 301 s\n")
    gate.last_poll = time.monotonic()
    assert get(port, "/livez") == (200, "ok\n")


def test_a_service_that_polls_no_more_is_not_ready(port: int, gate: ObservedService) -> None:
    gate.is_ready = True
    gate.last_poll -= POLL_LIMIT_SECONDS + 1
    assert get(port, "/readyz") == (503, "gate: has not polled for 301 s\n")
    gate.last_poll = time.monotonic()
    assert get(port, "/readyz") == (200, "ok\n")


def exchange(port: int, method: str, path: str) -> tuple[set[bytes], bytes]:
    """The lines of an answer's head, and the bytes after it."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    varies = (b"Date:", b"Content-Length:")
    return {line for line in head.split(b"\r\n") if not line.startswith(varies)}, body


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/settings", "/etc/passwd"])
def test_head_is_answered_as_get_without_the_body(port: int, path: str) -> None:
    head, body = exchange(port, "GET", path)
    assert body
    assert exchange(port, "HEAD", path) == (head, b"")
    status, page = exchange(port, "HEAD", "/metrics")
    assert page == b""
    assert b"HTTP/1.0 200 OK" in status


def test_a_counter_is_one_time_series(gate: ObservedService) -> None:
    metrics = Metrics()
    metrics.add(RECORDS, 1, "coordinator", "tidegate.commits")
    with serve("127.0.0.1", 0, metrics.registry, health_of([gate])) as port:
        assert "_created" not in get(port, "/metrics")[1]


def test_anything_else_is_not_found(port: int) -> None:
    assert get(port, "/etc/passwd")[0] == 404


def test_a_client_that_sends_nothing_holds_no_other_up(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        assert get(port, "/livez")[0] == 200


def test_a_port_in_use_is_said_before_anything_starts(port: int) -> None:
    with (
        pytest.raises(ConfigError, match=r"\[monitoring\] 127.0.0.1:\d+ can't be used"),
        serve("127.0.0.1", port, Metrics().registry, health_of([])),
    ):
        pass
