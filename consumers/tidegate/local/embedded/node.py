"""Start a Kafka node: write its files, format its storage, wait for its answer."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.compute.java import Jdk
from tidegate.errors import ConfigError
from tidegate.local.embedded.java import java_command
from tidegate.local.embedded.process import Child
from tidegate.local.embedded.settings import HOST, LOGGING, to_properties

_FORMAT_SECONDS: Final = 120
_POLL_SECONDS: Final = 0.02
_ANSWER_SECONDS: Final = 2.0


def write_files(folder: Path, settings: Mapping[str, str]) -> tuple[Path, str]:
    """Write `server.properties` and the logging configuration.

    Returns:
        The settings file, and the JVM option that names the logging configuration.
    """
    file, logging = folder / "server.properties", folder / "log4j2.properties"
    contents = {file: to_properties(settings), logging: LOGGING}
    for path, content in contents.items():
        path.touch(0o600)
        path.chmod(0o600)  # before the content, which may hold passwords
        path.write_text(content, encoding="utf-8")
    return file, f"-Dlog4j2.configurationFile={logging}"


def format_storage(
    jdk: Jdk, jars: Sequence[Path], file: Path, cluster_id: str, options: Sequence[str]
) -> None:
    """Give an empty data directory its cluster id, as Kafka's own tool does.

    Raises:
        ConfigError: the tool refuses the settings or the directory.
    """
    arguments = ["format", "-t", cluster_id, "-c", str(file)]
    main = "kafka.tools.StorageTool"
    command = java_command(jdk, jars, main, arguments, heap_mb=128, options=options)
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_FORMAT_SECONDS,
        check=False,
        umask=0o077,
    )
    if answer.returncode != 0:
        output = (answer.stdout + answer.stderr).strip()
        raise ConfigError(f"the storage of the embedded Kafka could not be formatted: {output}")


def new_cluster_id() -> str:
    """Make a cluster id: 22 characters, a random UUID in base64url."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # Kafka's tool takes a leading dash for an option
    return "A" + made[1:] if made.startswith("-") else made


def cluster_of(data: Path) -> str | None:
    """Read the cluster id out of a data directory, None if it was never formatted."""
    try:
        lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    return properties.get("cluster.id")


def free_ports() -> tuple[int, int]:
    """Find two unused ports. Another process may take one before they are used."""
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, 0))
        other.bind((HOST, 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def why_not_up(
    child: Child, address: str, cluster_id: str, client: Mapping[str, str], seconds: float
) -> str | None:
    """Wait until the node answers a metadata request.

    An answer counts only if it is from this node's cluster: its port may be another broker's.

    Args:
        child: Its process; if that ends, the wait does.
        address: Its `host:port`.
        cluster_id: Its cluster.
        client: librdkafka settings to ask with.
        seconds: How long to wait, in seconds.

    Returns:
        None once it answers, else what is wrong.
    """
    deadline = time.monotonic() + seconds
    host, port = address.split(",", 1)[0].rsplit(":", 1)
    while time.monotonic() < deadline:
        if child.exit_code is not None:
            return f"ended at once (exit code {child.exit_code})"
        if _is_open(host, int(port)) and _answers(address, cluster_id, client):
            return None
        time.sleep(_POLL_SECONDS)
    return f"did not answer within {seconds:g} s"


def _is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _answers(address: str, cluster_id: str, client: Mapping[str, str]) -> bool:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0, **client})
    try:
        metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException:
        return False
    # typed as None by the client; it is a string
    return bool(metadata.brokers) and cast("str | None", metadata.cluster_id) == cluster_id
