"""One TOML file: what it may hold, what wins over it, and what is never repeated from it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

import tidegate.service.settings
from tidegate.errors import ConfigError
from tidegate.errors.validation import FORMS
from tidegate.events.topics import EVENT_TYPES
from tidegate.service.settings import Settings
from tidegate.service.settings.problems import problems
from tidegate.service.settings.reference import settings_reference

SECRET = "s3cr3t-pa55word"  # noqa: S105 - a value to look for


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tidegate.toml"


def test_the_example_in_the_documentation_loads(file: Path) -> None:
    text = str(tidegate.service.settings.__doc__)
    file.write_text(text[text.index("[kafka]") :])
    settings = Settings.load(file)

    assert settings.connection() == {"bootstrap.servers": "broker:9092"}
    assert (settings.topics.partitions, settings.topics.replication) == (24, 3)
    assert settings.warehouse.roots == ("/lake", "s3://lake/tables")
    store = settings.warehouse.options["s3://lake"]
    assert (store["endpoint"], store["timeout"]) == ("http://minio:9000", 60)
    assert settings.spark.conf == {"spark.master": "local[2]"}
    assert [(rule.tables, [tier.tier for tier in rule.tiers]) for rule in settings.savepoints] == [
        ("lake.sales.*", ["hourly", "daily", "weekly", "monthly", "before"])
    ]


def test_without_a_file_the_defaults_hold() -> None:
    settings = Settings.load()

    assert (settings.topics.prefix, settings.topics.partitions) == ("tidegate", 24)
    assert settings.spark.min_items == 256


def test_how_long_a_pending_write_is_watched_can_be_set(file: Path) -> None:
    file.write_text("[restores]\nwatch_seconds = 0.5")

    assert Settings.load(file).restores.watch_seconds == 0.5
    assert Settings().restores.watch_seconds == 5


def test_where_writers_keep_their_locks_can_be_set(file: Path) -> None:
    file.write_text('[restores]\nlock_files = [".hoodie/a/lock", "locks/b"]\nlock_expiry = "2h"')
    found = Settings.load(file).restores

    assert found.lock_files == (".hoodie/a/lock", "locks/b")
    assert found.lock_expiry == 7200


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

    shown = Settings.load(file).connection()
    assert shown == {"bootstrap.servers": "environment:2", "security.protocol": "SSL"}


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

    with pytest.raises(ConfigError, match=f"{named}: unknown setting"):
        Settings.load(file)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[topics]\npartitions = 0", id="no partition"),
        pytest.param("[spark]\nmin_items = 0", id="no item"),
        pytest.param("[restores]\nwatch_seconds = -1", id="less than no time"),
        pytest.param("[restores]\nwatch_seconds = inf", id="a watch without end"),
        pytest.param("[restores]\nlock_files = ['/lock']", id="a lock outside of the table"),
        pytest.param("[restores]\nlock_files = ['a/../../lock']", id="a lock above the table"),
        pytest.param("[restores]\nlock_files = ['s3://b/lock']", id="a lock in a store"),
        pytest.param("[restores]\nlock_expiry = 0", id="a lock that is left behind at once"),
        pytest.param("[[savepoints]]\ntables = '*'\nwhen = 'always'", id="an unknown moment"),
        pytest.param("[kafka", id="no TOML"),
        pytest.param("[kafka]\n[kafka]", id="a section twice"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_file_named(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"tidegate\.toml: "):
        Settings.load(file)


def test_a_file_that_is_not_there_or_is_not_text_is_refused(file: Path) -> None:
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
        pytest.param(f'[warehouse]\nstorage = {{gs = "{SECRET}"}}', id="a storage key"),
        pytest.param(f'[warehouse.storage.gs]\nsecret = "{SECRET}"\n[x]', id="beside an error"),
        pytest.param(f'[kafka]\n"sasl.password" = "{SECRET}"\n"a" = 1.5', id="beside a fraction"),
        pytest.param(f'[[savepoints]]\ntables = "*"\nwhen = "{SECRET}"', id="for a known word"),
    ],
)
def test_no_value_is_ever_repeated_in_an_error(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        Settings.load(file)
    assert SECRET not in str(caught.value)


def test_without_a_broker_there_is_not_a_connection(file: Path) -> None:
    file.write_text("[topics]\nprefix = 'x'")

    with pytest.raises(ConfigError, match="KAFKA_BOOTSTRAP_SERVERS"):
        Settings.load(file).connection()


def test_a_variable_of_the_environment_wins_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('[topics]\nprefix = "file"\npartitions = 3\n[kafka]\n"client.id" = "file"')
    monkeypatch.setenv("TIDEGATE_TOPICS__PREFIX", "environment")
    monkeypatch.setenv("TIDEGATE_WAREHOUSE__ROOTS", '["/lake"]')
    monkeypatch.setenv("TIDEGATE_KAFKA__BOOTSTRAP_SERVERS", "environment:1")
    monkeypatch.setenv("TIDEGATE_SERVICES__COORDINATOR__RETRIES__ATTEMPTS", "7")

    settings = Settings.load(file)

    assert (settings.topics.prefix, settings.topics.partitions) == ("environment", 3)
    assert settings.warehouse.roots == ("/lake",)
    assert settings.connection() == {"client.id": "file", "bootstrap.servers": "environment:1"}
    assert settings.services.limits_of("coordinator").retries.attempts == 7


def test_a_variable_wins_over_a_setting_under_its_old_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[services.dead_letters]\nmax_failures = 3\nwindow = 5")
    monkeypatch.setenv("TIDEGATE_SERVICES__DEAD_LETTERS__MAX_FAILURES", "4")

    limits = Settings.load(file).services.limits_of("cleaner")

    found = limits.dead_letters
    assert (found.max_failures, found.window) == (4, 5)


def test_constructing_settings_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TOPICS__PREFIX", "environment")

    assert Settings().topics.prefix == "tidegate"
    assert Settings.model_validate({"topics": {"partitions": 2}}).topics.prefix == "tidegate"


def test_a_mistyped_variable_is_refused_and_the_nearest_section_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TOPIC__PREFIX", "x")
    with pytest.raises(
        ConfigError, match="TIDEGATE_TOPIC__PREFIX: unknown section, did you mean topics"
    ):
        Settings.load()
    monkeypatch.delenv("TIDEGATE_TOPIC__PREFIX")
    monkeypatch.setenv("TIDEGATE_TOPICS__PREFX", "x")
    with pytest.raises(ConfigError, match=r"topics\.prefx: unknown setting, did you mean prefix"):
        Settings.load()
    file = tmp_path / "tidegate.toml"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"tidegate\.toml or environment: topics\.prefx: unknown"):
        Settings.load(file)


def test_a_list_in_a_variable_that_is_not_json_is_refused_with_an_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_TOPICS__PREFIX", "x")
    monkeypatch.setenv("TIDEGATE_WAREHOUSE__ROOTS", SECRET)
    with pytest.raises(ConfigError) as caught:
        Settings.load()
    assert str(caught.value) == (
        "TIDEGATE_WAREHOUSE__ROOTS: write a list or table as JSON,"
        """ e.g. TIDEGATE_WAREHOUSE__ROOTS='["/lake"]'"""
    )


@pytest.mark.parametrize("bad", ["{x = 1}", "[{}]", "1.5", '"?"', "true", "-7"])
def test_no_problem_is_described_in_the_words_of_the_library(bad: str) -> None:
    listed = [setting for setting in settings_reference(Settings) if '"' not in setting.section]
    assert len(listed) > 80

    for setting in listed:
        head = f"[{setting.section}]" if setting.section else ""
        try:
            Settings.model_validate(tomllib.loads(f"{head}\n{setting.name} = {bad}"))
        except ValidationError as error:
            lines = problems(error, Settings)
            places = [line.partition(": ")[0] for line in lines]
            assert len(set(places)) == len(places) or setting.name == "principals"
            for line in lines:
                assert "Input should" not in line
                assert "[" not in line.partition(": ")[0]


def test_variables_that_are_not_settings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", "/cache")
    monkeypatch.setenv("TIDEGATE_JAVA_HOME", "/java")

    assert Settings.load() == Settings()


def test_texts_refer_to_the_environment_and_to_files(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    monkeypatch.setenv("LAKE_USER", "ana")
    file.write_text(
        f'[kafka]\n"sasl.username" = "${{LAKE_USER}}"\n'
        f'"sasl.password" = "${{file:{tmp_path}/password}}"\n"client.id" = "a-$${{b}}"\n'
        '[warehouse]\nroots = ["/lake/${LAKE_USER}"]'
    )

    settings = Settings.load(file)

    assert settings.kafka["sasl.username"] == "ana"
    assert settings.kafka["client.id"] == "a-${b}"
    assert settings.warehouse.roots == ("/lake/ana",)
    password = settings.kafka["sasl.password"]
    assert isinstance(password, SecretStr)
    assert password.get_secret_value() == SECRET
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        pytest.param("${NO_SUCH}", "environment variable NO_SUCH is not set", id="no variable"),
        pytest.param("${file:/no/such}", "can't read /no/such: No such file", id="no file"),
    ],
)
def test_a_reference_to_nothing_is_refused_with_its_setting(
    file: Path, reference: str, said: str
) -> None:
    file.write_text(f'[warehouse]\nroots = ["/lake", "{reference}"]')

    with pytest.raises(ConfigError, match=rf"tidegate\.toml: warehouse\.roots\.1: {said}"):
        Settings.load(file)


def test_each_invalid_setting_has_a_line_with_the_file_and_its_path(file: Path) -> None:
    file.write_text("[topics]\nprefx = 'x'\n[services.dead_letters]\nmax_failure = 1")

    with pytest.raises(ConfigError) as caught:
        Settings.load(file)

    assert str(caught.value).splitlines() == [
        f"{file}: topics.prefx: unknown setting, did you mean prefix?",
        f"{file}: services.dead_letters.max_failure: unknown setting, did you mean max_failures?",
    ]


@pytest.mark.parametrize("name", ["sasl.passwort", "ssl.key.passphrase", "x"])
def test_the_value_under_an_unknown_name_is_treated_as_a_secret(name: str) -> None:
    settings = Settings.model_validate({"kafka": {name: SECRET}})

    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()


def test_settings_that_are_nested_without_end_are_an_error_of_one_line(file: Path) -> None:
    file.write_text("a = " + "[" * 100_000)

    with pytest.raises(ConfigError, match="nested too deep"):
        Settings.load(file)


@pytest.mark.parametrize("model", [Settings, *EVENT_TYPES.values()])
def test_every_pattern_that_people_can_miss_is_explained_in_words(model: type[BaseModel]) -> None:
    assert set(patterns(model.model_json_schema())) <= FORMS.keys()


def patterns(schema: object) -> Iterator[str]:
    """The regular expressions in a JSON schema."""
    if isinstance(schema, dict):
        if isinstance(found := schema.get("pattern"), str):
            yield found
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from patterns(part)
