from __future__ import annotations

import errno
import socket
import struct
import sys
import threading
from pathlib import Path

import pytest

from tidegate.embedded.process import HOST, Child, EmbeddedServer, free_ports
from tidegate.errors import TidegateError

_PORT_RANGE = 51
"""IP_LOCAL_PORT_RANGE of Linux 6.3: `lowest | highest << 16`."""


@pytest.mark.skipif(sys.platform != "linux", reason="ports are reserved on Linux only")
def test_a_free_port_goes_to_no_other_process_before_its_server_starts() -> None:
    for port in free_ports():
        with socket.socket() as asks_for_any, socket.socket() as server:
            asks_for_any.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            only = struct.pack("I", port | port << 16)
            try:
                asks_for_any.setsockopt(socket.IPPROTO_IP, _PORT_RANGE, only)
            except OSError:
                pytest.skip("this kernel can't be asked for one port of its range")
            with pytest.raises(OSError, match="in use") as refused:
                asks_for_any.bind((HOST, 0))
            assert refused.value.errno == errno.EADDRINUSE

            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((HOST, port))
            server.listen()
            socket.create_connection((HOST, port), timeout=5).close()


class Short(EmbeddedServer):
    """A server that ends by itself, as a broker without space does."""

    def _launch(self, ports: tuple[int, int]) -> Child:  # noqa: ARG002 - it has none
        self.folder.mkdir()
        script = "import time; print('no space left'); time.sleep(0.5)"
        return Child([sys.executable, "-c", script], self.log)

    def _answers(self) -> bool:
        return True


def test_who_waits_for_a_server_learns_that_it_has_ended(tmp_path: Path) -> None:
    with (
        Short("Kafka", tmp_path / "kafka", 10) as server,
        pytest.raises(TidegateError, match=r"Kafka has ended; .*\nno space left"),
    ):
        server.wait(threading.Event())
