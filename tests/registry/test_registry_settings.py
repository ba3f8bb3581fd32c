"""What `[registry]` in the settings changes: every service speaks through it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.samples import memory_bus
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import ConfigError
from tidegate.registry import RegistrySchemas, wire_for
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.service.assembly import SERVICES, assemble
from tidegate.service.settings import Settings

SETTINGS = f"""
[warehouse]
roots = ["{Path(__file__).parent}"]

[registry]
url = "mock://tests"
basic_auth = "keeper:s3cret"
auto_register = false
[registry.options]
timeout = 3
"ssl.ca.location" = false
"""


def load(folder: Path, text: str) -> Settings:
    file = folder / "tidegate.toml"
    file.write_text(text)
    return Settings.load(file)


def test_the_section_is_read_and_its_secret_is_shown_nowhere(tmp_path: Path) -> None:
    settings = load(tmp_path, SETTINGS)

    assert settings.registry is not None
    assert settings.registry.auto_register is False
    assert settings.registry.client() == {
        "url": "mock://tests",
        "basic.auth.user.info": "keeper:s3cret",
        "max.retries": 0,
        "timeout": 3,
        "ssl.ca.location": False,
    }
    assert "s3cret" not in repr(settings)


def test_a_misspelt_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"registry\.autoregister"):
        load(tmp_path, SETTINGS.replace("auto_register", "autoregister"))


def test_where_the_id_goes_is_a_setting_with_two_values(tmp_path: Path) -> None:
    shown = SETTINGS.replace("[registry]\n", '[registry]\nschema_id_in = "headers"\n')

    for settings, in_headers in ((SETTINGS, False), (shown, True)):
        source = wire_for(load(tmp_path, settings).registry)._source
        assert source is not None
        assert source.in_headers is in_headers
    with pytest.raises(ConfigError, match=r"registry\.schema_id_in"):
        load(tmp_path, shown.replace("headers", "header"))


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_speaks_through_the_configured_registry(tmp_path: Path, name: str) -> None:
    loop = assemble(name, load(tmp_path, SETTINGS), memory_bus())

    assert isinstance(loop, CoordinatorLoop | ExecutorLoop)
    wire = loop._outgoing._wire if isinstance(loop, CoordinatorLoop) else loop._runner.wire
    assert isinstance(wire._source, RegistrySchemas)
    assert loop._decoder.wire is wire
    loop.close()


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://keeper:s3cret@registry:8081", id="a password"),
        pytest.param("https://s3cret@registry:8081", id="a token as the user"),
        pytest.param("https://registry:8081?token=s3cret", id="a token in the query"),
        pytest.param("https://registry:8081, https://s3cret@other:8081", id="in the second"),
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="must not contain a user, password or token") as caught:
        load(tmp_path, f'[registry]\nurl = "{url}"')
    assert "s3cret" not in str(caught.value)
