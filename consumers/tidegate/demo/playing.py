"""The acts in their order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tidegate.demo import hive_act, hudi_act
from tidegate.demo.stage import Stage
from tidegate.demo.story import Story
from tidegate.publisher import Publisher


def play_all(folder: Path, story: Story) -> None:
    """Play everything.

    Raises:
        TidegateError: a promise does not hold, or a part could not be started.
    """
    story.act("Before the play")
    with story.step("The jars of Kafka and Hudi are fetched, or found in the cache"):
        fetch_jars()
    stage = Stage(folder)
    with story.step("A real Kafka broker starts, the topics are made"):
        stage.__enter__()
    try:
        with story.step("Five services start, each a process of its own"):
            stage.start_services()
        with Publisher(stage.servers, said_by="demo-upstream", prefix=stage.prefix) as publisher:
            hudi_act.play(stage, story, publisher)
            hive_act.play(stage, story, publisher)
        _epilogue(stage, story)
    finally:
        with story.step("Everything is stopped"):
            stage.__exit__(None, None, None)
    story.end()


def fetch_jars() -> None:
    """Bring the jars that the demo needs into the cache."""
    from tidegate.embedded import resolve  # noqa: PLC0415

    resolve("kafka")
    resolve("hudi")


def _epilogue(stage: Stage, story: Story) -> None:
    story.act("Epilogue: what the audit trail says")
    stage.wait_until_idle()
    done = stage.audience.outcomes()
    for event in done:
        story.say(f"{type(event).__name__:<20} {event.table:<32} caused by {event.caused_by}")
    twice = [each for each, count in Counter(e.caused_by for e in done).items() if count > 2]  # noqa: PLR2004
    story.check("no command was answered more than once", holds=not twice, otherwise=twice)
    letters = stage.audience.dead_letters()
    story.check("the poison message is the only dead letter", holds=len(letters) == 1)
