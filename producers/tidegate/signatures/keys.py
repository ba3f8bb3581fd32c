"""Ed25519 keys: the private one in a file of its owner, the public one in the settings, both PEM.

`openssl genpkey -algorithm ed25519` makes such a file too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from joserfc.jwk import OKPKey

_CURVE: Final = "Ed25519"
_MAX_BYTES: Final = 10_000


class PublicKey:
    """A key that verifies. Its id is the thumbprint of RFC 7638."""

    def __init__(self, pem: str, where: str = "the public key") -> None:
        """Read a public key.

        Raises:
            ConfigError: it is not a public Ed25519 key in PEM, or `joserfc` is not installed.
        """
        key = _parsed(pem, where)
        if key.is_private:
            raise ConfigError(
                f"{where} is a private one: a reader of these settings could sign with it."
                " Make a new key, and put what `tidegate keys show` prints into the settings"
            )
        self.jwk = key
        self.key_id = str(key.thumbprint())


class SigningKey:
    """A key that signs. It is never shown or logged."""

    def __init__(self, pem: str, where: str = "the private key") -> None:
        """Read a private key.

        Raises:
            ConfigError: it is not a private Ed25519 key in PEM without a passphrase, or `joserfc`
                is not installed.
        """
        key = _parsed(pem, where)
        if not key.is_private:
            raise ConfigError(f"{where} is a public key: the private one signs")
        self.jwk = key
        self.key_id = str(key.thumbprint())

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a private key's file.

        Raises:
            ConfigError: it can't be read or is a pipe, others may read it, or it is not a private
                Ed25519 key.
        """
        try:
            if not stat.S_ISREG(file.stat().st_mode):  # opening a pipe waits for its writer
                raise ConfigError(f"the private key {file} is not a file")
            with file.open("rb") as opened:
                found, content = os.fstat(opened.fileno()), opened.read(_MAX_BYTES)
        except OSError as error:
            raise ConfigError(f"the private key can't be read: {error}") from error
        key = cls(content.decode("latin-1"), str(file))  # a public key needs no other mode
        _refuse_exposed(file, found, "the private key")
        return key

    @classmethod
    def generate(cls) -> Self:
        """Make a new key.

        Raises:
            ConfigError: `joserfc` is not installed.
        """
        return cls(_okp().generate_key(_CURVE).as_pem(private=True).decode())

    @property
    def private_pem(self) -> bytes:
        """The key itself, for its file."""
        return self.jwk.as_pem(private=True)

    @property
    def public_pem(self) -> str:
        """The public half, as the settings want it."""
        return self.jwk.as_pem(private=False).decode().strip()


def require_private(file: Path, what: str) -> None:
    """Refuse the file of a private key that others may read. One that is not there is not judged.

    Raises:
        ConfigError: it is exposed; the message has the command that repairs it.
    """
    try:
        found = file.stat()
    except OSError:  # opening it raises the better error
        return
    _refuse_exposed(file, found, what)


def _refuse_exposed(file: Path, found: os.stat_result, what: str) -> None:
    if problem := exposure(found.st_uid, found.st_mode, os.geteuid()):
        repair = f"chown {os.geteuid()}" if "belongs" in problem else "chmod 600"
        raise ConfigError(f"{what} in {file} {problem}: {repair} {file}")


def exposure(owner: int, mode: int, user: int) -> str:
    """Why others can read a private key in a file of this owner and mode; empty if not. Pure.

    A file of root may be readable for its group, which is then the service's: systemd's credentials
    and the secrets of Kubernetes are so.

    Args:
        owner: The file's user id.
        mode: Its `st_mode`.
        user: The effective user id of this process.
    """
    if owner not in (0, user):
        return f"belongs to user {owner}, neither to this process nor to root"
    of_root = owner == 0 != user
    allowed = stat.S_IRGRP if of_root else 0
    if exposed := stat.S_IMODE(mode) & 0o077 & ~allowed:
        return (
            f"may be read or changed by others than its owner (mode {exposed | mode & 0o700:03o})"
        )
    return ""


def _parsed(pem: str, what: str) -> OKPKey:
    key_type = _okp()
    from joserfc.errors import JoseError  # noqa: PLC0415 - only signing needs it

    wanted = f"{what} is not an Ed25519 key in PEM"
    if len(pem) > _MAX_BYTES:
        raise ConfigError(f"{wanted}: it has {len(pem)} characters")
    try:
        key = key_type.import_key(pem)
    except TypeError as error:
        raise ConfigError(f"{what} has a passphrase, which is not supported") from error
    except (JoseError, ValueError) as error:  # what they say may quote the key
        raise ConfigError(wanted) from error
    if key.curve_name != _CURVE:
        raise ConfigError(f"{wanted}, but {key.curve_name}")
    return key


def _okp() -> type[OKPKey]:
    try:
        from joserfc.jwk import OKPKey  # noqa: PLC0415 - only signing needs it
    except ImportError as error:
        raise ConfigError("signatures need joserfc: pip install 'tidegate[signatures]'") from error
    return OKPKey
