"""The compose file, checked without Docker: its shape, its ports, and that it agrees with ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.broker import KAFKA
from tidegate.service.catalogue import COORDINATOR, EXECUTORS
from tidegate.service.settings import Settings

COMPOSE = Path(__file__).parents[2] / "compose" / "compose.yaml"


@pytest.fixture
def kafka() -> dict[str, Any]:
    service: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    return service


def test_every_port_is_reached_from_this_machine_only() -> None:
    folder = COMPOSE.parent
    ports = [
        port
        for name in ("compose.yaml", "services.yaml", "container.yaml")
        for service in yaml.safe_load((folder / name).read_text())["services"].values()
        for port in service.get("ports", [])
    ]

    assert len(ports) == 5
    assert [port for port in ports if not port.startswith("127.0.0.1:${TIDEGATE_")] == []


def test_every_service_has_a_container_and_only_workers_have_the_tables() -> None:
    services = yaml.safe_load((COMPOSE.parent / "services.yaml").read_text())["services"]
    kinds = {
        service["command"][1]: service["extends"]["service"]
        for service in services.values()
        if service["command"][0] == "run"
    }

    assert kinds == {COORDINATOR: "service"} | dict.fromkeys(EXECUTORS, "worker")


def test_the_bridge_reads_the_tables_and_cannot_change_them() -> None:
    """It lists what a compaction made before it publishes the compaction."""
    folder = COMPOSE.parent
    services = yaml.safe_load((folder / "services.yaml").read_text())["services"]
    kind = services["bridge-metastore"]["extends"]["service"]
    container = yaml.safe_load((folder / "container.yaml").read_text())["services"][kind]
    [bridge] = [
        manifest["spec"]["template"]["spec"]["containers"][0]
        for manifest in manifests()
        if manifest["metadata"]["name"] == "tidegate-bridge-metastore"
    ]

    assert container.get("volumes") == ["${TIDEGATE_LAKE:-lake}:/lake:ro"]
    assert {"name": "lake", "mountPath": "/lake", "readOnly": True} in bridge["volumeMounts"]


def test_the_example_of_an_env_file_has_every_variable_with_its_default() -> None:
    folder = COMPOSE.parent
    texts = [(folder / name).read_text() for name in ("compose.yaml", "container.yaml")]
    defaults = set(re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", "".join(texts)))
    lines = (folder / ".env.example").read_text().splitlines()
    given = {tuple(line.split("=", 1)) for line in lines if line and not line.startswith("#")}

    assert given == defaults


def test_the_settings_of_the_containers_are_valid() -> None:
    settings = Settings.load(COMPOSE.parent / "tidegate.toml")

    assert settings.monitoring.port == 9464
    assert settings.cleaning.may_quarantine is False


def test_the_container_runs_the_kafka_that_the_embedded_broker_is(kafka: dict[str, Any]) -> None:
    [version] = re.findall(r"kafka_2\.13:([0-9.]+)", KAFKA.read_text())

    assert kafka["image"] == f"apache/kafka:{version}"


def test_settings_that_both_brokers_have_are_the_same(kafka: dict[str, Any]) -> None:
    theirs = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in kafka["environment"].items()
    }
    ours = EmbeddedBroker(Path("/data"))._settings((9092, 9093))
    own = {name for name in theirs if re.search(r"listener|voters|log\.dirs", name)}

    assert {name: ours.get(name) for name in theirs if name not in own} == {
        name: value for name, value in theirs.items() if name not in own
    }


def test_what_members_of_a_group_may_ask_for_is_the_same(kafka: dict[str, Any]) -> None:
    ours = {
        name
        for name in EmbeddedBroker(Path("/data"))._settings((1, 2))
        if name.startswith("group.")
    }
    theirs = {
        name.removeprefix("KAFKA_").replace("_", ".").lower() for name in kafka["environment"]
    }

    assert ours <= theirs


def test_every_listener_has_a_security_protocol(kafka: dict[str, Any]) -> None:
    settings = kafka["environment"]
    listeners = {part.split(":")[0] for part in settings["KAFKA_LISTENERS"].split(",")}
    protocols = settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")

    assert {protocol.split(":")[0] for protocol in protocols} == listeners


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((COMPOSE.parent / "kubernetes.yaml").read_text()))


def test_the_manifests_are_valid_kubernetes() -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, "1.31", strict=True)


def test_a_manifest_with_a_misspelt_field_is_not_valid() -> None:
    [first, *_] = manifests()
    first["spec"]["replica"] = 2

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(first, "1.31", strict=True)
