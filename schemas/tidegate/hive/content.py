"""What lies in directories, as one hash: others of the same names are not taken for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256


def content_hash(directories: Mapping[str, Iterable[tuple[str, int, int]]]) -> str:
    """Hash the names of directories and what their files are, in whatever order they come.

    Args:
        directories: By name the files below each, as name, size in bytes, and time of change in
            milliseconds since the epoch.

    Returns:
        64 hexadecimal digits.
    """
    listed = sorted((name, sorted(files)) for name, files in directories.items())
    return sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()
