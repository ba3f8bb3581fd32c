from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from support import jar_locks
from support.jar_locks import dumps, make_lock
from tidegate.embedded.jars import _JarLock, _LockedJar, cache_dir, resolve
from tidegate.errors import ConfigError, TransientError
from tidegate.runtime.retry import RetryPolicy

SMALL = (b"the bytes of a small jar", b"the bytes of a greater jar")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and a repository on the disk with two artifacts in it."""
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDEGATE_IVY_SETTINGS", str(repository(tmp_path / "repository")))
    return tmp_path / "cache"


def repository(root: Path) -> Path:
    for artifact, content in zip(("one", "two"), SMALL, strict=True):
        folder = root / "org" / "example" / artifact / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{artifact}-1.0.jar").write_bytes(content)
        (folder / f"{artifact}-1.0.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>{artifact}</artifactId><version>1.0</version></project>"
        )
    settings = root / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="disk"/><resolvers>'
        f'<ibiblio name="disk" m2compatible="true" root="{root.as_uri()}"/>'
        "</resolvers></ivysettings>"
    )
    return settings


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock of the two artifacts, in an order that is not the alphabet's."""
    made = make_lock(("org.example:one:1.0", "org.example:two:1.0"))
    turned = made.model_copy(update={"jars": tuple(reversed(made.jars))})
    path = tmp_path / "example.json"
    path.write_text(dumps(turned))
    return path


def test_jars_come_in_the_order_of_the_lock(lock: Path, own_cache: Path) -> None:
    jars = resolve(lock)

    assert jars == (
        own_cache / "jars" / "example" / "two-1.0.jar",
        own_cache / "jars" / "example" / "one-1.0.jar",
    )
    assert [jar.read_bytes() for jar in jars] == [SMALL[1], SMALL[0]]


def test_another_file_of_an_artifact_is_named_by_its_classifier(tmp_path: Path) -> None:
    file = tmp_path / "repository" / "org" / "example" / "two" / "1.0" / "two-1.0-all.tar.gz"
    file.write_bytes(b"the bytes of an archive")

    made = make_lock(("org.example:two:1.0:all@tar.gz",), transitive=False)
    (tmp_path / "archive.json").write_text(dumps(made))

    assert [jar.name for jar in made.jars] == ["two-1.0-all.tar.gz"]
    assert (
        jar_locks.resolve(tmp_path / "archive.json")[0].read_bytes() == b"the bytes of an archive"
    )


def test_a_whole_cache_is_used_without_the_repository(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = resolve(lock)
    monkeypatch.setenv("TIDEGATE_IVY_SETTINGS", "/nowhere/ivysettings.xml")
    monkeypatch.setenv("TIDEGATE_JAVA_HOME", "/nowhere")

    assert resolve(lock) == first


def test_a_jar_tampered_with_in_the_cache_is_replaced(lock: Path) -> None:
    two, _ = resolve(lock)
    stamp = two.stat()
    two.write_bytes(SMALL[1].replace(b"greater", b"GREATER"))
    assert two.stat().st_size == stamp.st_size

    assert resolve(lock)[0].read_bytes() == SMALL[1]


def test_a_half_cache_is_made_whole(lock: Path) -> None:
    two, _ = resolve(lock)
    two.unlink()

    assert [jar.read_bytes() for jar in resolve(lock)] == [SMALL[1], SMALL[0]]


def test_a_jar_that_is_not_the_locked_one_is_refused_and_never_reaches_the_cache(
    lock: Path, own_cache: Path, tmp_path: Path
) -> None:
    jar = tmp_path / "repository" / "org" / "example" / "two" / "1.0" / "two-1.0.jar"
    jar.write_bytes(SMALL[1].replace(b"greater", b"GREATER"))

    with pytest.raises(ConfigError, match=r"two-1\.0\.jar.* is not the jar of the lock"):
        resolve(lock)

    assert [path.name for path in own_cache.rglob("*") if path.is_file()] == [".example.lock"]


def test_a_jar_that_the_repository_no_longer_gives_is_refused(lock: Path) -> None:
    content = _JarLock.model_validate_json(lock.read_text())
    third = _LockedJar(name="three-1.0.jar", sha256="0" * 64, size=1)
    lock.write_text(dumps(content.model_copy(update={"jars": (*content.jars, third)})))

    with pytest.raises(ConfigError, match=r"three-1\.0\.jar"):
        resolve(lock)


def test_an_unreachable_repository_is_one_sentence_that_names_the_way_out(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "repository" / "ivysettings.xml"
    text = settings.read_text().replace((tmp_path / "repository").as_uri(), "http://127.0.0.1:9/")
    settings.write_text(text)
    monkeypatch.setattr("tidegate.embedded.jars._RETRIES", RetryPolicy(attempts=1))

    with pytest.raises(TransientError, match="TIDEGATE_IVY_SETTINGS") as caught:
        resolve(lock)

    assert "\n" not in str(caught.value)
    assert "org.example:one:1.0" in str(caught.value)
    assert "Connection refused" in str(caught.value)


def test_two_processes_at_once_fetch_once_and_both_have_the_jars(
    lock: Path, own_cache: Path
) -> None:
    code = (
        "import logging, sys; from pathlib import Path; logging.basicConfig(level='INFO');"
        "from tidegate.embedded.jars import resolve;"
        "print([jar.read_bytes() for jar in resolve(Path(sys.argv[1]))])"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(lock)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=60) for process in both]

    assert [out.strip() for out, _ in answers] == [str([SMALL[1], SMALL[0]])] * 2
    assert sum("fetching 2 jars" in said for _, said in answers) == 1
    assert {path.name for path in (own_cache / "jars").iterdir()} == {"example", ".example.lock"}


def test_a_fetch_is_logged(lock: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        resolve(lock)

    assert "fetching 2 jars for example" in caplog.text


def test_a_jar_name_cannot_lead_out_of_the_cache() -> None:
    with pytest.raises(ValueError, match="name"):
        _LockedJar(name="../../evil.jar", sha256="0" * 64, size=1)


def test_the_cache_is_where_the_variable_says_else_the_users_own(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_dir() == own_cache
    monkeypatch.delenv("TIDEGATE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/someone/.cache")
    assert cache_dir() == Path("/home/someone/.cache/tidegate")
