"""The commands by group. A command's module is imported when the command is called, not before."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Mapping


_LONG: Final = 1000
"""Longer than the first sentence of any command."""


class Entry(NamedTuple):
    """A command, or a group of commands, of the first level."""

    module: str
    """Below this package; its attribute has the name of the command."""
    help: str


SECTIONS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "Look": {
        "status": Entry("look.status", "What needs a person, services, and what waits."),
        "explain": Entry("look.explain", "The history of a table or event, and next steps."),
        "outcomes": Entry("look.events", "What was done or refused, why, and for whom."),
        "events": Entry("look.events", "Follow the events of a topic, decoded."),
        "waiting": Entry("look.waiting", "Vacuums that wait, and for which readers."),
        "doctor": Entry("look.doctor", "Check a deployment, with advice for every fault."),
    },
    "Restore": {
        "savepoints": Entry(
            "restore.savepoints", "List a table's savepoints; remove unowned ones."
        ),
        "plan": Entry("restore.plan", "What would be done to a table. Changes nothing."),
        "publish": Entry("restore.publish", "Request a restore or savepoint; report commits."),
        "simulate": Entry("restore.simulate", "Savepoints that a policy would have made."),
    },
    "Clean": {
        "hold": Entry("clean.hold", "Pause and resume the cleaning of a table."),
        "undo": Entry("clean.undo", "Put back what a cleaning moved into quarantine."),
    },
    "Repair": {
        "dead-letters": Entry("repair.dead_letters", "Failed messages: list, redrive, discard."),
        "replay": Entry("repair.replay", "Let a service read again, or publish again."),
        "skip": Entry("repair.skip", "Move a stopped service past one record."),
    },
    "Set up": {
        "config": Entry("setup.config", "Make, check, show and compare settings."),
        "topics": Entry("setup.topics", "Create, check and describe topics; access rights."),
        "keys": Entry("setup.keys", "Make keys that sign events and requests."),
        "run": Entry("setup.services", "Run services until they are stopped."),
        "bridge": Entry("setup.bridge", "Publish for writers that cannot do it."),
        "monitor": Entry("setup.services", "Export the metrics of the deployment."),
        "broker": Entry("setup.services", "Run a local Kafka broker, without Docker."),
        "spark-archive": Entry(
            "setup.spark_archive", "Pack a store's client for Spark's executors."
        ),
        "demo": Entry("setup.services", "Run the complete story on real parts."),
        "schemas": Entry("setup.schemas", "Avro schemas of the events, and examples."),
        "asyncapi": Entry("setup.schemas", "Print the AsyncAPI document."),
    },
}


class LazyCommands(UserDict[str, Any]):
    """Commands by name; the first access to one imports its module."""

    def __init__(self) -> None:
        """Know the names."""
        super().__init__()
        self.data = {name: entry for group in SECTIONS.values() for name, entry in group.items()}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own click
        """The command.

        Raises:
            KeyError: there is none of this name.
        """
        found = super().__getitem__(name)
        if isinstance(found, Entry):
            found = self.data[name] = _imported(name, found)
        return found


def _imported(name: str, entry: Entry) -> Any:  # noqa: ANN401 - typer's own click
    from tidegate.cli.examples import add_examples  # noqa: PLC0415 - not for the list of commands
    from tidegate.cli.progress import add_progress  # noqa: PLC0415

    module = import_module(f"tidegate.cli.{entry.module}")
    command = getattr(module, name.replace("-", "_"))
    root = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        root.add_typer(command, name=name, cls=CommandGroup)
    else:
        root.command(name)(command)
    add_examples(root)
    add_progress(root)
    return typer.main.get_group(root).commands[name]


class CommandGroup(TyperGroup):
    """A group that lists its commands with their complete first sentences."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - click's
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_LONG))
                    for name, command in self.commands.items()
                ]
            )


class CommandTree(TyperGroup):
    """The `tidegate` command, which lists its commands by group."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - typer's
        """Know the commands' names."""
        super().__init__(**attrs)
        self.commands = LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - click's
        """Write the list of commands."""
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])
