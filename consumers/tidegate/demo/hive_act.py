"""Second act: a vacuum on a Hive ACID table waits for its last reader."""

from __future__ import annotations

from tidegate.demo.stage import Stage
from tidegate.demo.story import Story
from tidegate.publisher import Publisher


def play(stage: Stage, story: Story, publisher: Publisher) -> None:
    """Play the act."""
