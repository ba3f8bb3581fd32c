"""`tidegate config`: a first settings file, a check of one, and what is in effect."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from tidegate.cli import main
from tidegate.cli.setup.config import settings_template
from tidegate.monitoring.endpoint import serve
from tidegate.ops.doctor.local import check_rules
from tidegate.service.settings import Settings
from tidegate.service.settings.reference import settings_reference


def tidegate(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tidegate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)


def test_a_new_file_is_valid_and_has_only_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"

    assert tidegate("config", "init", monkeypatch=monkeypatch) == 0
    file.write_text(capsys.readouterr().out)
    assert tidegate("config", "check", "-c", str(file), monkeypatch=monkeypatch) == 0

    loaded = Settings.load(file).model_dump()
    assert loaded.pop("kafka") == {"bootstrap.servers": "127.0.0.1:9092"}
    assert loaded == {k: v for k, v in Settings().model_dump().items() if k != "kafka"}


def test_every_default_in_a_new_file_is_accepted_as_it_stands() -> None:
    sections = re.split(r"^(?=(?:# )?\[)", settings_template(), flags=re.MULTILINE)
    lines = [
        line.removeprefix("# ").rpartition("    #")[0] or line
        for section in sections
        if not section.startswith("# [")  # one that is left out as a whole
        for line in section.splitlines()
        if not (line.startswith("# ") and " = " not in line) and "..." not in line
    ]

    loaded = Settings.model_validate(tomllib.loads("\n".join(lines)))

    assert loaded.model_dump(exclude={"kafka"}) == Settings().model_dump(exclude={"kafka"})


def test_a_problem_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        '[topics]\npartitons = 3\n[monitoring]\nport = "x"\ntables = "*"\n[savepoints]\nx = 1'
    )

    assert tidegate("config", "check", "-c", str(file), monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "topics.partitons: unknown setting, did you mean partitions?" in said
    assert "monitoring.port" in said
    assert 'monitoring.tables: write a list, e.g. ["a", "b"]' in said
    assert "savepoints: write [[savepoints]]: there may be several" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[kafka]\nacks = "1"', "acks = 1 must be all"),
        ('[kafka]\n"bootstrap.server" = "b:1"', 'property: "bootstrap.server"'),
        ('[kafka]\n"bootstrap.servers" = "b:1,b:99999"', "'b:99999' is not HOST:PORT"),
        ('[kafka]\n"bootstrap.servers" = "http://b:1"', "'http://b:1' is not HOST:PORT"),
        ('[registry]\nurl = "http://r:99999"', "registry.url: Port out of range"),
        ('[registry]\nurl = "r:8081"', "registry.url: not an address"),
        ('[kafka]\nbootstrap.servers = "b:1"', 'in quotes: "bootstrap.servers" = ...'),
        ('[spark.conf]\nspark.sql.extensions = "x"', 'in quotes: "spark.sql.extensions" = ...'),
        ('[registry.options]\nssl.ca = "x"', 'in quotes: "ssl.ca" = ...'),
        ('[kafka]\n"acks" = 1.5', "kafka: acks: write text, a whole number, true or false"),
        ('[topics]\nprefix = "My Topics"', "topics.prefix: write up to 200 of a-z"),
        (f'[topics]\nprefix = "{"x" * 201}"', "topics.prefix: write up to 200 of a-z"),
        ('[warehouse]\nroots = ["lake"]', "not an absolute path or URI, or it has '..': 'lake'"),
        (
            "[[security.keys]]\nname = 'ana'\nroles = ['holder']\npublic_key = 'x'",
            "the public key of ana ",
        ),
        ('[warehouse]\nroots = ["/"]', "none may be an entire file system"),
        (
            '[monitoring]\nnotify = ["json://h/", "pigeon://s3cret"]',
            "[monitoring] notify: entry 2 is not an apprise address",
        ),
    ],
)
def test_a_setting_that_the_services_refuse_is_a_problem(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str,
    said: str,
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(content)
    if '"bootstrap.servers"' not in content:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092,SSL://[::1]:9093")

    assert tidegate("config", "check", "-c", str(file), monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "s3cret" not in error
    file.write_text("")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092,SSL://[::1]:9093")
    assert tidegate("config", "check", "-c", str(file), monkeypatch=monkeypatch) == 0


def test_a_rule_that_can_never_apply_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        '[kafka]\n"bootstrap.servers" = "b:1"\n[warehouse]\nroots = ["/lake"]\n'
        '[[restores.rules]]\nlocations = ["/elsewhere"]\napproval = true'
    )

    assert tidegate("config", "check", "-c", str(file), monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    assert said.err.startswith(
        "tidegate: warning: restores.rules.0.locations: /elsewhere is in none of"
    )
    assert said.out.startswith("the settings are valid")
    assert tidegate("config", "check", "--json", "-c", str(file), monkeypatch=monkeypatch) == 0
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning in said.err
    found = check_rules(Settings.load(file))
    assert (found.state, found.seen) == ("warn", warning)


def test_without_settings_a_command_says_how_to_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tidegate("status", monkeypatch=monkeypatch) == 2
    assert "name the settings file (-c or TIDEGATE_CONFIG)" in capsys.readouterr().err

    file = tmp_path / "tidegate.toml"
    file.write_text('[kafka]\n"bootstrap.server" = "broker:9092"')
    assert tidegate("status", "-c", str(file), monkeypatch=monkeypatch) == 2
    assert "is it meant by bootstrap.server?" in capsys.readouterr().err


def test_what_is_shown_hides_every_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        '[kafka]\n"bootstrap.servers" = "b:1"\n"sasl.password" = "hush1"\n'
        '[registry]\nurl = "http://r:1"\nbasic_auth = "u:hush2"\noptions = {x = "hush3"}\n'
        '[warehouse.storage.webhdfs]\nkey = "hush4"\n[spark.conf]\n"spark.x" = "hush5"\n'
        '[warehouse]\nroots = ["/lake"]'
    )
    monkeypatch.setenv("TIDEGATE_TOPICS__PREFIX", "from-environment")

    assert tidegate("config", "show", "-c", str(file), monkeypatch=monkeypatch) == 0
    plain = capsys.readouterr().out
    assert tidegate("config", "show", "--json", "-c", str(file), monkeypatch=monkeypatch) == 0
    as_json = capsys.readouterr().out

    for shown in (plain, as_json):
        assert "hush" not in shown
        assert "from-environment" in shown
    assert 'kafka.bootstrap.servers = "b:1"' in plain
    assert json.loads(as_json)["warehouse"]["roots"] == ["/lake"]


def test_every_setting_has_a_meaning() -> None:
    listed = list(settings_reference(Settings))

    assert [setting for setting in listed if not setting.meaning.endswith((".", "..."))] == []
    assert {"restores", "warehouse", "[savepoints]"} <= {setting.section for setting in listed}


def test_durations_are_shown_in_one_form_that_a_settings_file_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        '[cleaning]\nkeep = 7200\n[restores]\nlock_expiry = "90m"\n'
        '[[savepoints]]\ntables = "*"\nmin_gap = "1h30m"\ndaily = { keep = 7, lifetime = "2w" }\n'
    )

    assert tidegate("config", "show", "--json", "-c", str(file), monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)

    assert (shown["cleaning"]["keep"], shown["restores"]["lock_expiry"]) == ("2h", "90m")
    [rule] = shown["savepoints"]
    assert (rule["min_gap"], rule["daily"]["lifetime"]) == ("90m", "14d")
    again = Settings.model_validate(shown)
    assert (again.cleaning, again.restores, again.savepoints) == (
        Settings.load(file).cleaning,
        Settings.load(file).restores,
        Settings.load(file).savepoints,
    )


def test_settings_are_compared_with_those_of_a_running_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[topics]\npartitions = 3\n[kafka]\n"sasl.password" = "hush"\n')
    running = Settings.load(file)
    with serve("127.0.0.1", 0, CollectorRegistry(), (list, list), running.shown()) as port:
        command = ("config", "diff", "--at", f"127.0.0.1:{port}", "-c", str(file))
        assert tidegate(*command, monkeypatch=monkeypatch) == 0
        assert "runs with these settings" in capsys.readouterr().out
        own = '[security]\nsign_with = "/keys/ana.pem"\n[monitoring]\nport = 9\n'
        own += '[services]\ninstance_id = "host-1"\n[kafka]\n"client.id" = "ana"\n'
        file.write_text(f'[topics]\npartitions = 3\n{own}"sasl.password" = "hush"\n')
        assert tidegate(*command, monkeypatch=monkeypatch) == 0  # of these each has its own
        assert "runs with these settings" in capsys.readouterr().out
        with urlopen(f"http://127.0.0.1:{port}/settings") as answer:
            assert b"hush" not in answer.read()

        file.write_text('[topics]\npartitions = 6\n[cleaning]\nkeep = "7d"\n')
        assert tidegate(*command, monkeypatch=monkeypatch) == 1
        assert set(capsys.readouterr().out.splitlines()) == {
            "topics.partitions: running 3, here 6",
            'cleaning.keep: running "3d", here "7d"',
            'kafka.sasl.password: running "**********", here unset',
        }
    assert tidegate(*command, monkeypatch=monkeypatch) == 1
    assert "did not return settings" in capsys.readouterr().err
    assert tidegate("config", "diff", "-c", str(file), monkeypatch=monkeypatch) == 2
