"""The acts in their order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from tidegate.demo import hive_act, hudi_act
from tidegate.demo.stage import Stage
from tidegate.demo.story import Story
from tidegate.embedded import resolve
from tidegate.errors import ConfigError, TidegateError

EXPECTED: Final = {
    "SavepointCreated": 2,
    "RestorePlanned": 1,
    "RestoreStarted": 1,
    "RestoreCompleted": 1,
    "CleaningStarted": 1,
    "DirectoriesCleaned": 1,
}
"""The outcomes of the two acts, and nothing else."""


def run_demo(folder: Path) -> int:
    """Play the demo in a new directory; give the exit code: 0 if every promise held, else 1.

    Raises:
        ConfigError: the directory is there already, and is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: the demo wants a directory of its own")
    story = Story()
    try:
        play_all(folder.absolute(), story)
    except TidegateError as error:
        story.console.print(f"[bold red]broken:[/] {error}", highlight=False)
        story.say(f"What was written is in {folder}")
        return 1
    return 0


def play_all(folder: Path, story: Story) -> None:
    """Play everything.

    Raises:
        TidegateError: a promise does not hold, or a part could not be started.
    """
    story.act("Before the play")
    with story.step("The jars of Kafka and Hudi are fetched, or found in the cache"):
        for lock in ("kafka", "hudi"):
            resolve(lock)
    with Stage(folder, story) as stage, stage.publisher() as publisher:
        hudi_act.play(stage, story, publisher)
        hive_act.play(stage, story, publisher)
        _epilogue(stage, story)
    story.end()


def _epilogue(stage: Stage, story: Story) -> None:
    story.act("Epilogue: what the audit trail says")
    stage.wait_until_idle()
    done = stage.audience.outcomes()
    for event in done:
        story.say(f"{type(event).__name__:<20} {event.table:<28} [dim]{event.event_id}[/]")
    kinds = Counter((type(event), event.caused_by) for event in done)
    twice = [each for each, count in kinds.items() if count > 1]
    story.check("no command was answered twice", holds=not twice, otherwise=twice)
    told = Counter(type(event).__name__ for event in done)
    story.check("every command was answered", holds=told == EXPECTED, otherwise=told)
