from __future__ import annotations

from pathlib import Path

from tidegate.embedded.broker import broker_settings, client_addresses, to_properties


def test_a_node_listens_on_the_loopback_interface_only() -> None:
    settings = broker_settings(Path("/data"), 1001, 1002, {})

    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1001,CONTROLLER://127.0.0.1:1002"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:1002"
    assert settings["auto.create.topics.enable"] == "false"


def test_given_properties_win_over_the_quick_ones() -> None:
    given = {"node.id": "2", "offsets.topic.replication.factor": "3"}

    settings = broker_settings(Path("/data"), 1001, 1002, given)

    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"] == "2@127.0.0.1:1002"
    assert settings["offsets.topic.replication.factor"] == "3"


def test_a_node_alone_votes_for_itself_where_its_controller_listens() -> None:
    given = {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"}

    settings = broker_settings(Path("/data"), 9, 9, given)

    assert settings["controller.quorum.voters"] == "1@127.0.0.1:2"


def test_clients_are_sent_to_every_listener_but_the_controllers() -> None:
    given = {"listeners": "SASL_SSL://127.0.0.1:1,CONTROLLER://127.0.0.1:2,PLAINTEXT://127.0.0.1:3"}

    addresses = client_addresses(broker_settings(Path("/data"), 9, 9, given))

    assert addresses == "127.0.0.1:1,127.0.0.1:3"


def test_a_backslash_survives_the_properties_file() -> None:
    assert to_properties({"path": r"C:\data"}) == "path=C:\\\\data\n"
