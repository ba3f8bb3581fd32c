from __future__ import annotations

from pathlib import Path

from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.broker import to_properties


def test_a_node_listens_on_the_loopback_interface_only() -> None:
    settings = EmbeddedBroker(Path("/data"))._settings((1001, 1002))

    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1001,CONTROLLER://127.0.0.1:1002"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:1002"
    assert settings["auto.create.topics.enable"] == "false"


def test_a_backslash_survives_the_properties_file() -> None:
    assert to_properties({"path": r"C:\data"}) == "path=C:\\\\data\n"
