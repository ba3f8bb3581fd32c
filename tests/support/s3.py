"""A real S3 server (moto's); a test can let things happen before and after its requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from socket import SHUT_RDWR
from typing import Any, Final
from urllib.request import urlopen

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tidegate.tables.warehouse import Warehouse, WarehouseRoots

BUCKET: Final = "lake"
Request = tuple[str, str]
"""A request: its method, and its path with the query."""


@dataclass
class S3Server:
    """The address of a server, and what happens around its requests."""

    before: Callable[[Request], object] = repr
    """Called before a request is carried out."""
    loses_answer: Callable[[Request], bool] = field(default=lambda _: False)
    """Decides after a request was carried out whether the connection is cut without an answer."""
    endpoint: str = ""

    def options(self) -> dict[str, dict[str, Any]]:
        """The options of fsspec for this server."""
        return {
            "s3": {
                "endpoint_url": self.endpoint,
                "key": "test",
                "secret": "test",
                "client_kwargs": {"region_name": "us-east-1"},
                "skip_instance_cache": True,
            }
        }

    def warehouse(self, root: str = f"s3://{BUCKET}") -> Warehouse:
        return Warehouse(WarehouseRoots.of(f"{root}/wh"), self.options())

    def client(self) -> Any:  # noqa: ANN401 - boto3 is untyped
        """The official client, which names any key."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - the server accepts any
            region_name="us-east-1",
        )

    def put(self, *keys: str) -> None:
        client = self.client()
        for key in keys:
            client.put_object(Bucket=BUCKET, Key=key, Body=b"1")

    def keys(self) -> list[str]:
        found = self.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [entry["Key"] for entry in found]


@contextmanager
def s3_server() -> Generator[S3Server]:
    """Run a server with an empty bucket."""
    control = S3Server()
    app = DomainDispatcherApplication(create_backend_app)

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        request = (environ["REQUEST_METHOD"], environ["PATH_INFO"] + (query and f"?{query}"))
        control.before(request)
        answer: Iterator[bytes] = iter(app(environ, start_response))
        if control.loses_answer(request):
            list(answer)
            environ["werkzeug.socket"].shutdown(SHUT_RDWR)
            raise ConnectionResetError
        return answer

    server = make_server("127.0.0.1", 0, serve, threaded=True)
    control.endpoint = f"http://127.0.0.1:{server.port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        # all servers of a process share their buckets
        urlopen(f"{control.endpoint}/moto-api/reset", data=b"").close()  # noqa: S310 - its own server
        control.client().create_bucket(Bucket=BUCKET)
        yield control
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
