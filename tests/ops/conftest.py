"""A deployment on the counted broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.replays import Place


@pytest.fixture
def place(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    made = Place(tmp_path, bootstrap_servers, topic_prefix)
    made.lake.mkdir()
    made.create_topics()
    return made
