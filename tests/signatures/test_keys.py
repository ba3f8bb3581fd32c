"""Keys: files of their owner alone, and clear errors for everything that is not one."""

from __future__ import annotations

import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519

from support.signing import ANA, EVE, entry, key_file, settings
from tidegate.cli import main
from tidegate.errors import ConfigError
from tidegate.service.assembly import authorizer, decider_of
from tidegate.service.settings import InvalidSettingsError, Settings
from tidegate.signatures import PublicKey, SigningKey

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
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

    assert tidegate(monkeypatch, "keys", "new", file, "--name", 'ana "the admin"') == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = capsys.readouterr().out
    deployment.write_text(f"[security]\nrequire_signatures = true\n{printed}")
    (listed,) = Settings.load(deployment).security.keys
    assert listed.name == 'ana "the admin"'
    assert PublicKey(listed.public_key).key_id == SigningKey.read(file).key_id
    assert "PRIVATE" not in printed

    assert tidegate(monkeypatch, "keys", "show", file, "--name", "ana") == 0
    assert tomllib.loads(capsys.readouterr().out)["security"]["keys"][0]["name"] == "ana"


def test_an_existing_file_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = key_file(tmp_path)
    before = file.read_bytes()

    assert tidegate(monkeypatch, "keys", "new", file) == 2
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
        authorizer(settings(entry() | {"public_key": private}))
    assert private.splitlines()[1] not in str(refused.value)


def test_the_same_key_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="same public key twice"):
        authorizer(settings(entry(), entry(name="bob")))


def test_signatures_without_keys_are_refused_when_the_settings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text("[security]\nrequire_signatures = true\n")

    with pytest.raises(InvalidSettingsError, match="every command would be refused"):
        Settings.load(file)


def test_keys_of_openssl_are_keys() -> None:
    key = ed25519.Ed25519PrivateKey.generate()

    assert SigningKey(pem(key)).key_id != EVE.key_id
    assert decider_of("reader-gate", settings(entry())).name == "reader-gate"


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
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == "signatures need joserfc: pip install 'tidegate[signatures]'\n"
