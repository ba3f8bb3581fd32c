"""One TOML file: what it may hold, what wins over it, and what is never repeated from it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import tidegate.settings
from tidegate.errors import ConfigError
from tidegate.services.assembly import restore_settings
from tidegate.settings import Settings

SECRET = "s3cr3t-pa55word"  # noqa: S105 - a value to look for


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tidegate.toml"


def test_the_example_in_the_documentation_loads(file: Path) -> None:
    text = str(tidegate.settings.__doc__)
    file.write_text(text[text.index("[kafka]") :])
    settings = Settings.load(file)

    assert settings.connection() == {"bootstrap.servers": "broker:9092"}
    assert (settings.topics.partitions, settings.topics.replication) == (6, 3)
    assert settings.warehouse.roots == ("/lake", "s3://lake/tables")
    assert settings.warehouse.storage == {"s3": {"endpoint_url": "http://minio:9000"}}
    assert settings.spark.conf == {"spark.master": "local[2]"}
    assert [(rule.tables, rule.when) for rule in settings.savepoints] == [
        ("lake.sales.*", "every_commit")
    ]


def test_without_a_file_the_defaults_hold() -> None:
    settings = Settings.load()

    assert (settings.topics.prefix, settings.topics.partitions) == ("tidegate", 6)
    assert settings.spark.from_items == 256


def test_how_long_a_pending_write_is_watched_can_be_set(file: Path) -> None:
    file.write_text("[restores]\nwatch_seconds = 0.5")

    assert restore_settings(Settings.load(file)).watch == timedelta(seconds=0.5)
    assert restore_settings(Settings()).watch == timedelta(seconds=5)


def test_the_file_may_be_named_by_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[topics]\nprefix = "from-the-file"')
    monkeypatch.setenv("TIDEGATE_CONFIG", str(file))

    assert Settings.load().topics.prefix == "from-the-file"


def test_the_broker_of_the_environment_wins_and_the_rest_of_the_file_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[kafka]\n"bootstrap.servers" = "file:1"\n"security.protocol" = "SSL"')
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:2")

    told = Settings.load(file).connection()
    assert told == {"bootstrap.servers": "environment:2", "security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("[topic]\nprefix = 'x'", "topic", id="a section"),
        pytest.param("[topics]\nprefx = 'x'", "topics.prefx", id="a name in a section"),
        pytest.param("[warehouse]\nroot = ['/lake']", "warehouse.root", id="a singular"),
        pytest.param(
            "[[savepoints]]\ntables = '*'\nwhen = 'on_request'\nevery = 2",
            "savepoints.0.every",
            id="a name in a rule",
        ),
    ],
)
def test_a_misspelt_name_is_refused_and_named(file: Path, text: str, named: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError, match=f"{named}: Extra inputs are not permitted"):
        Settings.load(file)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[topics]\npartitions = 0", id="no partition"),
        pytest.param("[spark]\nfrom_items = 0", id="no item"),
        pytest.param("[restores]\nwatch_seconds = -1", id="less than no time"),
        pytest.param("[restores]\nwatch_seconds = inf", id="a watch without end"),
        pytest.param("[[savepoints]]\ntables = '*'\nwhen = 'always'", id="an unknown moment"),
        pytest.param("[kafka", id="no TOML"),
        pytest.param("[kafka]\n[kafka]", id="a section twice"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_file_named(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"tidegate\.toml: "):
        Settings.load(file)


def test_a_file_that_is_not_there_or_is_no_text_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"tidegate\.toml: "):
        Settings.load(file)
    file.write_bytes(b"[kafka]\n\xff")
    with pytest.raises(ConfigError, match=r"tidegate\.toml: "):
        Settings.load(file)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'[kafka]\n"sasl.password" = ["{SECRET}"]', id="a password of a wrong type"),
        pytest.param(f'[kafka]\n"sasl.password" = "{SECRET}', id="a password without its end"),
        pytest.param(f'[kafka]\n"sasl.password" = {SECRET}', id="a password without quotes"),
        pytest.param(f'kafka = "{SECRET}"', id="a password for a section"),
        pytest.param(f'[warehouse]\nstorage = {{s3 = "{SECRET}"}}', id="a storage key"),
        pytest.param(f'[warehouse.storage.s3]\nsecret = "{SECRET}"\n[x]', id="beside an error"),
        pytest.param(f'[kafka]\n"sasl.password" = "{SECRET}"\n"a" = 1.5', id="beside a fraction"),
        pytest.param(f'[[savepoints]]\ntables = "*"\nwhen = "{SECRET}"', id="for a known word"),
    ],
)
def test_no_value_is_ever_repeated_in_an_error(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        Settings.load(file)
    assert SECRET not in str(caught.value)


def test_without_a_broker_there_is_no_connection(file: Path) -> None:
    file.write_text("[topics]\nprefix = 'x'")

    with pytest.raises(ConfigError, match="KAFKA_BOOTSTRAP_SERVERS"):
        Settings.load(file).connection()
