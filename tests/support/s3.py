"""Real S3 servers. With moto's, a test lets things happen before and after its requests."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from socket import SHUT_RDWR
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

import boto3
import obstore
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from platformdirs import user_cache_path
from werkzeug.serving import make_server

from support.jar_locks import resolve
from support.waiting import wait_for
from tidegate.embedded.process import free_ports
from tidegate.storage.parallel import batches_of
from tidegate.storage.s3 import S3Store
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET: Final = "lake"
_PAGE: Final = 1000
_S3A: Final = Path(__file__).with_name("s3a.json")
_MODULES: Final = {
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
    "minio": "github.com/minio/minio@latest",
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
}
_SECRET: Final = "true-or-any-word"  # noqa: S105 - of servers of the tests
Request = tuple[str, str]
"""A request: its method, and its path with the query."""


@dataclass
class S3Server:
    """The address of a server, and what happens around its requests."""

    before: Callable[[Request], object] = repr
    """Called before a request is carried out."""
    answers: Callable[[Request], str | None] = field(default=lambda _: None)
    """The status (`503 Slow Down`) that a request is refused with, without being carried out."""
    loses_answer: Callable[[Request], object] = field(default=lambda _: False)
    """Decides after a request was carried out whether the connection is cut without an answer."""
    ignores: Sequence[str] = ()
    """Headers of requests that the server does not know: `HTTP_IF_MATCH`."""
    endpoint: str = ""
    max_concurrency: int | None = None

    def options(self, bucket: str = BUCKET) -> dict[str, dict[str, Any]]:
        """The options of a store on this server."""
        # on a busy disk a real server takes long to remove a thousand keys
        timeout = 5.0 if self.endpoint == _moto() else 60.0
        reached: dict[str, Any] = {"endpoint": self.endpoint, "timeout": timeout}
        if self.max_concurrency:
            reached["max_concurrency"] = self.max_concurrency
        return {f"s3://{bucket}": reached}

    def settings(self, *buckets: str) -> dict[str, dict[str, Any]]:
        """The same for several buckets, as in the settings."""
        return {f"s3://{bucket}": {"endpoint": self.endpoint} for bucket in buckets}

    def warehouse(self, root: str = f"s3://{BUCKET}") -> Warehouse:
        return Warehouse(WarehouseRoots.of(f"{root}/wh"), self.options(root[len("s3://") :]))

    def client(self) -> Any:  # noqa: ANN401 - boto3 is untyped
        """The official client, which names any key."""
        return _client(self.endpoint)

    def put(self, *keys: str) -> None:
        client = self.client()
        for key in keys:
            client.put_object(Bucket=BUCKET, Key=key, Body=b"" if key.endswith("/") else b"1")

    def put_folder(self, folder: Path, key: str) -> None:
        """Put all files below a folder into moto, without requests."""
        for path in folder.rglob("*"):
            if path.is_file():
                name = f"{key}/{path.relative_to(folder)}"
                s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(BUCKET, name, path.read_bytes())

    def put_many(self, keys: Iterable[str]) -> None:
        """Put objects: into moto without requests, else many at once."""
        if self.endpoint == _moto():
            for key in keys:
                s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(BUCKET, key, b"1")
            return
        objects = S3Store(BUCKET, endpoint=self.endpoint).clients.objects
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda key: obstore.put(objects, key, b"1"), keys))

    def all_keys(self) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@contextmanager
def s3_server(program: str = "moto") -> Generator[S3Server]:
    """A server with an empty bucket. It runs until the process ends; tests take turns."""
    control = S3Server()
    with _credentials():
        control.endpoint = _moto() if program == "moto" else _real(program)
        _CONTROL[:] = [control]
        for keys in batches_of(control.all_keys(), _PAGE):
            named = {"Objects": [{"Key": key} for key in keys]}
            answer = control.client().delete_objects(Bucket=BUCKET, Delete=named)
            assert not answer.get("Errors"), answer["Errors"]
        try:
            yield control
        finally:
            _CONTROL.clear()


@pytest.fixture
def s3() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


def use_s3a(spark: SparkSession, server: S3Server) -> None:
    """Let a session that runs, and all that is on it, use the server through s3a."""
    context: Any = spark.sparkContext
    loader = context._jvm.Thread.currentThread().getContextClassLoader()
    for jar in resolve(_S3A):
        loader.addURL(context._jvm.java.net.URL(jar.as_uri()))
        context._jsc.addJar(str(jar))
    settings = {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.path.style.access": "true",
        # Hudi does not close all that it opens
        "fs.s3a.connection.maximum": "2000",
        "fs.s3a.access.key": _SECRET,
        "fs.s3a.secret.key": _SECRET,
    }
    for name, value in settings.items():
        context._jsc.hadoopConfiguration().set(name, value)


_CONTROL: Final[list[S3Server]] = []
"""The test's control of moto's server."""


@cache
def _moto() -> str:
    app = DomainDispatcherApplication(create_backend_app)

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        request = (environ["REQUEST_METHOD"], environ["PATH_INFO"] + (query and f"?{query}"))
        control = _CONTROL[0] if _CONTROL else S3Server()
        control.before(request)
        for header in control.ignores:
            environ.pop(header, None)
        if refusal := control.answers(request):
            start_response(refusal, [("Content-Type", "application/xml")])
            return [b"<Error><Code>%s</Code></Error>" % refusal[4:].replace(" ", "").encode()]
        answer: Iterator[bytes] = iter(app(environ, start_response))
        if control.loses_answer(request):
            list(answer)
            environ["werkzeug.socket"].shutdown(SHUT_RDWR)
            raise ConnectionResetError
        return answer

    server = make_server("127.0.0.1", 0, serve, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return _with_bucket(f"http://127.0.0.1:{server.port}")


def go_program(name: str) -> Path:
    """A program that is built by `go install` once, and cached; skips where it can't be built."""
    built = user_cache_path("tidegate") / "go" / name
    if not built.exists() and (fault := _fault_of_build(name, built.parent)):
        pytest.skip(f"{name} can't be built here: {fault}")
    return built


@cache
def _fault_of_build(name: str, folder: Path) -> str:
    if "CI" in os.environ:
        return "CI builds no server, which takes many minutes"
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    command = ["go", "install", _MODULES[name]]
    try:
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no Go"
    except subprocess.CalledProcessError as error:
        return str(error.stderr)[-300:]
    return ""


@cache
def _real(program: str) -> str:
    """Run `minio` or `versitygw`, other implementations, on a directory."""
    address = f"127.0.0.1:{free_ports()[0]}"
    folder = mkdtemp()
    arguments = {
        "minio": ["server", "--quiet", "--address", address, folder],
        "versitygw": ["--quiet", "--port", address, "posix", folder],
    }
    names = ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "ROOT_ACCESS_KEY", "ROOT_SECRET_KEY")
    running = subprocess.Popen(
        [go_program(program), *arguments[program]],
        env={**os.environ, **dict.fromkeys(names, _SECRET)},
        stdout=subprocess.DEVNULL,
    )
    atexit.register(shutil.rmtree, folder)
    atexit.register(running.wait)
    atexit.register(running.terminate)
    return _with_bucket(f"http://{address}")


def _with_bucket(endpoint: str) -> str:
    """The endpoint, once it answers and has the bucket."""

    def is_made() -> bool:
        try:
            _client(endpoint).create_bucket(Bucket=BUCKET)
        except (ClientError, EndpointConnectionError, HTTPClientError):
            return False
        return True

    wait_for(f"a bucket on {endpoint}", is_made)
    return endpoint


@cache
def _client(endpoint: str) -> Any:  # noqa: ANN401 - boto3 is untyped
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")


@contextmanager
def _credentials() -> Generator[None]:
    """Credentials where boto3 finds them. moto accepts any."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, _SECRET)
        yield
