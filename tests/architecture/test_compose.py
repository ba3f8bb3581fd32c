"""The compose file, checked without Docker: its shape, its ports, and that it agrees with ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.local.embedded.settings import broker_settings

COMPOSE = Path(__file__).parents[2] / "compose" / "compose.yaml"


@pytest.fixture
def kafka() -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    return service


def test_kafka_is_reached_from_this_machine_only(kafka: dict[str, Any]) -> None:
    assert kafka["ports"] == ["127.0.0.1:${TIDEGATE_KAFKA_PORT:-9092}:9092"]


def test_every_volume_that_a_service_mounts_is_declared() -> None:
    document = yaml.safe_load(COMPOSE.read_text())
    mounted = {
        mount.split(":")[0]
        for service in document["services"].values()
        for mount in service.get("volumes", [])
    }

    assert mounted == set(document["volumes"])


def test_the_container_runs_the_kafka_that_the_embedded_broker_is(kafka: dict[str, Any]) -> None:
    lock = (
        COMPOSE.parents[1]
        / "consumers"
        / "tidegate"
        / "local"
        / "embedded"
        / "locks"
        / "kafka.json"
    )
    [version] = re.findall(r"kafka_2\.13:([0-9.]+)", lock.read_text())

    assert kafka["image"] == f"apache/kafka:{version}"


def test_settings_that_both_brokers_have_are_the_same(kafka: dict[str, Any]) -> None:
    theirs = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in kafka["environment"].items()
    }
    ours = broker_settings(Path("/data"), 9092, 9093, {})
    own = {name for name in theirs if re.search(r"listener|voters|log\.dirs", name)}

    assert {name: ours.get(name) for name in theirs if name not in own} == {
        name: value for name, value in theirs.items() if name not in own
    }


def test_what_members_of_a_group_may_ask_for_is_the_same(kafka: dict[str, Any]) -> None:
    ours = {name for name in broker_settings(Path("/data"), 1, 2, {}) if name.startswith("group.")}
    theirs = {
        name.removeprefix("KAFKA_").replace("_", ".").lower() for name in kafka["environment"]
    }

    assert ours <= theirs


def test_every_listener_has_a_security_protocol(kafka: dict[str, Any]) -> None:
    settings = kafka["environment"]
    listeners = {part.split(":")[0] for part in settings["KAFKA_LISTENERS"].split(",")}
    protocols = settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")

    assert {protocol.split(":")[0] for protocol in protocols} == listeners
