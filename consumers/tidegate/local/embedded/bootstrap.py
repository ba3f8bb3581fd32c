"""Which Kafka to use: the one that the environment names, else the embedded one."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidegate.local.embedded.broker import EmbeddedBroker

SERVERS_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"


@contextmanager
def bootstrap(folder: Path) -> Generator[str]:
    """The address of KAFKA_BOOTSTRAP_SERVERS, else of an embedded broker that is started here.

    The embedded broker keeps its data in `folder`, and stops at the end of the block.

    Raises:
        ConfigError: the embedded broker could not be started.
        TransientError: its jars could not be fetched.
    """
    named = os.environ.get(SERVERS_VARIABLE, "").strip()
    if named:
        yield named
        return
    with EmbeddedBroker(folder) as broker:
        yield broker.bootstrap_servers
