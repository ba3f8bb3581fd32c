"""One hash of the content of directories, to detect other directories with the same names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256


def content_hash(directories: Mapping[str, Iterable[tuple[str, int, int]]]) -> str:
    """Hash the names of directories and their files, in any order.

    Args:
        directories: The files below each directory, by its name, as name, size in bytes, and time
            of change in milliseconds since the epoch.

    Returns:
        64 hexadecimal digits.
    """
    listed = sorted((name, sorted(files)) for name, files in directories.items())
    return sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()
