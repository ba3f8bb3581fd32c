"""Keys: files of their owner alone, and clear errors for everything that is not one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519

from support.signing import ANA, EVE, entry, key_file, restore, settings
from tidegate.cli import main
from tidegate.errors import ConfigError, DeliveryError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.publisher import Publisher
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings
from tidegate.signatures import PublicKey, SigningKey
from tidegate.signatures.keys import exposure

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
ROLE = ("--role", "requester")
LAKE = ("--tables", "lake.*", "--locations", "/lake/", "--locations", "s3a://lake")
PLAIN = serialization.NoEncryption()


def pem(key: rsa.RSAPrivateKey | x25519.X25519PrivateKey | ed25519.Ed25519PrivateKey) -> str:
    return key.private_bytes(PEM, PKCS8, PLAIN).decode()


def tidegate(monkeypatch: pytest.MonkeyPatch, *argv: object) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["tidegate", *map(str, argv)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_new_key_can_be_read_by_its_owner_alone_and_its_output_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, deployment = tmp_path / "ana.pem", tmp_path / "tidegate.toml"

    assert (
        tidegate(monkeypatch, "keys", "new", file, *ROLE, *LAKE, "--name", 'ana "the admin"') == 0
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = capsys.readouterr().out
    deployment.write_text(f"[security]\nrequire_signatures = true\n{printed}")
    (listed,) = Settings.load(deployment).security.keys
    assert listed.name == 'ana "the admin"'
    assert (listed.roles, listed.tables) == (("requester",), ("lake.*",))
    assert listed.locations == ("/lake", "s3://lake")
    assert PublicKey(listed.public_key).key_id == SigningKey.read(file).key_id
    assert "PRIVATE" not in printed

    assert tidegate(monkeypatch, "keys", "show", file) == 0
    shown = tomllib.loads(capsys.readouterr().out)["public_key"]
    assert shown.strip() == listed.public_key.strip()


@pytest.mark.parametrize("name", ["an\u200ba", "an\u00ada", "an\udcffa", " "])
def test_a_key_for_a_name_that_the_settings_refuse_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / "ana.pem"

    assert tidegate(monkeypatch, "keys", "new", file, *ROLE, "--name", name) == 2
    assert "a name has" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize(
    ("only", "sentence"), [(LAKE[:2], "add the directories"), (LAKE[2:], "add the names")]
)
def test_a_key_whose_entry_the_settings_refuse_is_not_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    only: tuple[str, ...],
    sentence: str,
) -> None:
    file = tmp_path / "ana.pem"

    assert tidegate(monkeypatch, "keys", "new", file, *ROLE, *only, "--name", "ana") == 2
    assert f"the key of ana has {only[0][2:]} and no " in (err := capsys.readouterr().err)
    assert sentence in err
    assert not file.exists()


def test_a_key_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tidegate(monkeypatch, "keys", "new", file := tmp_path / "ana.pem", *ROLE) == 2
    assert "--name" in capsys.readouterr().err
    assert not file.exists()


def test_an_existing_file_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = key_file(tmp_path)
    before = file.read_bytes()

    assert tidegate(monkeypatch, "keys", "new", file, *ROLE, "--name", "ana") == 2
    assert "can't be written" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not an Ed25519 key in PEM"),
        ("-----BEGIN PRIVATE KEY-----\nxx\n-----END PRIVATE KEY-----", "is not an Ed25519 key"),
        ("x" * 20_000, "has 20000 characters"),
        (pem(rsa.generate_private_key(65537, 2048)), "is not an Ed25519 key"),
        (pem(x25519.X25519PrivateKey.generate()), "but X25519"),
        (
            ed25519.Ed25519PrivateKey.generate()
            .private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"x"))
            .decode(),
            "has a passphrase",
        ),
        (ANA.public_pem, "is a public key"),
    ],
    ids=["empty", "broken", "long", "rsa", "x25519", "passphrase", "public"],
)
def test_what_is_not_a_private_key_is_an_error_that_does_not_quote_it(
    text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        SigningKey(text)
    assert "BEGIN" not in str(refused.value)


def test_a_private_key_among_the_public_ones_is_refused_and_not_quoted() -> None:
    private = ANA.jwk.as_pem(private=True).decode()

    with pytest.raises(ConfigError, match="is a private one") as refused:
        authorization(settings(entry() | {"public_key": private}), "memory")
    assert private.splitlines()[1] not in str(refused.value)


def test_the_same_key_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="same public key twice"):
        authorization(settings(entry(), entry(name="bob")), "memory")


def test_without_a_broker_nothing_is_signed_and_the_error_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.publisher.delivery._REPORT_SECONDS", 0)
    config = {"delivery.timeout.ms": 500}
    with (
        Publisher("127.0.0.1:1", source="t", config=config, sign_with=key_file(tmp_path)) as sender,
        pytest.raises(DeliveryError, match=r"a signature names the cluster.* no broker answers"),
    ):
        sender.publish(restore())


def test_signatures_without_keys_are_refused_when_the_settings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text("[security]\nrequire_signatures = true\n")

    with pytest.raises(ConfigError, match="every command would be refused"):
        Settings.load(file)


def test_keys_of_openssl_are_keys() -> None:
    key = ed25519.Ed25519PrivateKey.generate()

    assert SigningKey(pem(key)).key_id != EVE.key_id


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["joserfc"] = sys.modules["joserfc.jwk"] = None
from tidegate.errors import ConfigError
from tidegate.publisher import Publisher
from tidegate.signatures import SigningKey
try:
    SigningKey("x")
except ConfigError as error:
    print(error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout == "signatures need joserfc: pip install 'tidegate[signatures]'\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602], ids=oct)
def test_a_key_that_others_may_read_or_replace_is_refused_with_what_to_do(
    tmp_path: Path, mode: int
) -> None:
    file = key_file(tmp_path)
    file.chmod(mode)

    with pytest.raises(ConfigError, match=f"private key .*others.*: chmod 600 {file}$"):
        SigningKey.read(file)


@pytest.mark.parametrize("mode", [0o400, 0o600], ids=oct)
def test_a_key_of_its_owner_alone_is_read_also_through_a_link(tmp_path: Path, mode: int) -> None:
    file, link = key_file(tmp_path), tmp_path / "link.pem"
    link.symlink_to(file)
    file.chmod(mode)

    assert SigningKey.read(link).key_id == ANA.key_id


@pytest.mark.parametrize(
    ("owner", "mode", "user", "problem"),
    [
        pytest.param(1000, 0o600, 1000, "", id="own"),
        pytest.param(0, 0o400, 1000, "", id="of root"),
        # systemd's LoadCredential, and secrets of Kubernetes with an fsGroup
        pytest.param(0, 0o440, 1000, "", id="of root, for the group of the service"),
        pytest.param(0, 0o444, 1000, "others", id="of root, for all"),
        pytest.param(0, 0o440, 0, "others", id="of root, and its process is root"),
        pytest.param(1000, 0o440, 1000, "others", id="own, for its group"),
        pytest.param(1001, 0o600, 1000, "belongs to user 1001", id="of another user"),
        pytest.param(1001, 0o600, 0, "belongs to user 1001", id="of another user, read by root"),
    ],
)
def test_whose_file_a_private_key_is_in(owner: int, mode: int, user: int, problem: str) -> None:
    found = exposure(owner, stat.S_IFREG | mode, user)

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize("name", ["ssl.key.location", "ssl.keystore.location"])
def test_a_tls_key_that_others_may_read_is_refused_before_anything_connects(
    tmp_path: Path, name: str
) -> None:
    key = tmp_path / "client.key"
    key.touch(0o644)
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "b:1", name: str(key)}})

    with pytest.raises(ConfigError, match=rf"{name}.*chmod 600 {key}"):
        settings.connection()
    key.chmod(0o600)
    assert settings.connection()[name] == str(key)


def test_a_key_of_the_metastores_tls_that_others_may_read_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "client.key"
    key.touch(0o644)
    tls = {"certificate_file": "/etc/client.pem", "key_file": str(key)}
    settings = MetastoreSettings.model_validate({"uri": "thrift://127.0.0.1:1", "tls": tls})

    with pytest.raises(ConfigError, match=f"chmod 600 {key}"):
        MetastoreClient(settings).snapshot()


def test_a_pipe_is_not_a_private_key_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "ana.pem"
    os.mkfifo(pipe, 0o600)

    with pytest.raises(ConfigError, match="is not a file"):
        SigningKey.read(pipe)
