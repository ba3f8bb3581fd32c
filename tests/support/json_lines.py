"""What a command prints for scripts: a JSON object a line."""

from __future__ import annotations

import json
from typing import Any


def json_lines(text: str) -> list[Any]:
    """The objects, in order."""
    return [json.loads(line) for line in text.splitlines()]
