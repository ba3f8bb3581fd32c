"""Secrets in the settings reach the clients only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

SECRETS = [
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_reaches_the_client_and_is_in_no_text(name: str) -> None:
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "b:1", name: "hush-hush"}})

    assert settings.connection() == {"bootstrap.servers": "b:1", name: "hush-hush"}
    for text in (repr(settings), str(settings), settings.model_dump_json(), f"{settings.kafka}"):
        assert "hush-hush" not in text
        assert "b:1" in text


def test_what_is_not_a_secret_is_passed_through_untouched() -> None:
    shown: dict[str, str | int | bool] = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/etc/ca.pem",
        "sasl.username": "ana",
        "socket.timeout.ms": 1500,
        "enable.ssl.certificate.verification": False,
    }

    assert Settings.model_validate({"kafka": shown}).connection() == shown


def test_the_options_of_the_storage_and_of_spark_are_in_no_text() -> None:
    settings = Settings.model_validate(
        {
            "warehouse": {"storage": {"webhdfs": {"secret": "hush-hush"}}},
            "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "hush-hush"}},
        }
    )

    assert settings.warehouse.storage["webhdfs"]["secret"] == "hush-hush"  # noqa: S105
    assert "hush-hush" not in repr(settings) + str(settings)


def test_a_setting_that_the_client_refuses_is_reported_without_its_value(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[kafka]\n"bootstrap.servers" = "b:1"\n"sasl.jaas.config" = "hush-hush"\n')

    with pytest.raises(ConfigError) as caught:
        KafkaBus(Settings.load(file).connection())
    assert "hush-hush" not in str(caught.value)
