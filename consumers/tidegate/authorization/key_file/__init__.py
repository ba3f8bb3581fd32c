"""A new private key's file: never over another one, and for its owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.signatures import SigningKey


def create_key_file(file: Path) -> SigningKey:
    """Make a key and write it to a new file of mode 0600.

    Raises:
        ConfigError: the file exists or can't be created, or `joserfc` is not installed.
    """
    key = SigningKey.generate()
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(key.private_pem)
    except OSError as error:
        raise ConfigError(f"the private key can't be written: {error}") from error
    return key
