"""What people who watch see: a service's log, a real Prometheus, whether an alert's rule holds."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from support.alerts import ALERTS
from support.waiting import wait_for
from tidegate.embedded.process import Child

PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None, reason="prometheus is not installed (Debian has it)"
)
_JOB = """\
  - job_name: {name}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
_LISTENING = r'Listening on" address=(\S+)'


def get(url: str) -> str | None:
    """A page; None without an answer, or if not with success."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own address
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, ConnectionError):
        return None


@contextmanager
def webhook(port: int = 0, field: str = "message") -> Iterator[tuple[int, list[str]]]:
    """The port of a server, and the messages that are posted to it, or another field of them."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body)[field])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, posted
        finally:
            server.shutdown()
            thread.join()


def found_in(child: Child, pattern: str) -> str:
    """What the first group of a pattern matches in a process's log, once it does."""
    look = re.compile(pattern)
    found = wait_for(pattern, lambda: look.search(child.log.read_text()))
    return str(found[1])


def port_of(child: Child) -> int:
    """Where a process answers /metrics."""
    return int(found_in(child, r"/readyz on http://[\d.]+:(\d+)"))


def lines_of(child: Child) -> list[dict[str, Any]]:
    """The JSON lines of a process's log."""
    lines = child.log.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def run_monitor(settings: Path, folder: Path) -> Child:
    """`tidegate monitor`, looking every half second."""
    command = ["/usr/bin/env", "-u", "KAFKA_BOOTSTRAP_SERVERS", sys.executable, "-m"]
    command += ["tidegate.cli", "monitor", "--port", "0", "--interval", "0.5", "-c", str(settings)]
    return Child(command, folder / "monitor.log")


class Prometheus:
    """A real Prometheus that scrapes processes of this machine twice a second."""

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        """Take where its data go, and the port of each job."""
        file = folder / "prometheus.yml"
        jobs = "".join(_JOB.format(name=name, port=port) for name, port in ports.items())
        head = "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n"
        file.write_text(head + jobs)
        command = [str(PROMETHEUS), f"--config.file={file}"]
        command += [f"--storage.tsdb.path={folder / 'prometheus'}"]
        self._child = Child(
            [*command, "--web.listen-address=127.0.0.1:0"], folder / "prometheus.log"
        )

    def __enter__(self) -> Self:
        self._address = found_in(self._child, _LISTENING)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end(signal.SIGTERM, 20)

    def query(self, expression: str) -> list[Any]:
        """What a query gives now; nothing where it holds for no series."""
        asked = urllib.parse.quote(expression)
        text = get(f"http://{self._address}/api/v1/query?query={asked}")
        return list(json.loads(text)["data"]["result"]) if text else []

    def answers(self, expression: str) -> bool:
        """Whether it understands a query, with or without a result."""
        asked = urllib.parse.quote(expression)
        return get(f"http://{self._address}/api/v1/query?query={asked}") is not None

    def would_alert(self, name: str, **labels: str) -> bool:
        """Whether the condition of an alert holds for a series with these labels."""
        [alert] = [alert for alert in ALERTS if alert.name == name]
        found = [series["metric"] for series in self.query(alert.expression)]
        return any(labels.items() <= labels_found.items() for labels_found in found)
