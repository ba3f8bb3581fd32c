"""The app, and its commands by group; a command's module is imported when it is called."""

from __future__ import annotations

import inspect
from collections import UserDict
from importlib import import_module
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from tidegate.cli.exit_codes import table
from tidegate.cli.output import write

if TYPE_CHECKING:
    from collections.abc import Mapping


_LONG: Final = 1000
"""Longer than the first sentence of any command."""


class _Entry(NamedTuple):
    """A command, or a group of commands, of the first level."""

    module: str
    """Below this package; its attribute has the name of the command."""
    help: str


SECTIONS: Final[Mapping[str, Mapping[str, _Entry]]] = {
    "Look": {
        "status": _Entry("look.status", "What needs a person, services, and what waits."),
        "explain": _Entry("look.explain", "The history of a table or event, and next steps."),
        "outcomes": _Entry("look.events", "What was done or refused, why, and for whom."),
        "events": _Entry("look.events", "Follow the events of a topic, decoded."),
        "waiting": _Entry("look.status", "Vacuums that wait, and for which readers."),
        "doctor": _Entry("look.doctor", "Check a deployment, with advice for every fault."),
    },
    "Restore": {
        "savepoints": _Entry(
            "restore.savepoints", "List a table's savepoints; remove unowned ones."
        ),
        "plan": _Entry("restore.plan", "What would be done to a table. Changes nothing."),
        "publish": _Entry("restore.publish", "Request a restore or savepoint; report commits."),
        "simulate": _Entry("restore.savepoints", "Savepoints that a policy would have made."),
    },
    "Clean": {
        "hold": _Entry("clean", "Pause and resume the cleaning of a table."),
        "undo": _Entry("clean", "Put back what a cleaning moved into quarantine."),
    },
    "Repair": {
        "dead-letters": _Entry("repair.dead_letters", "Failed messages: list, redrive, discard."),
        "replay": _Entry("repair.replay", "Let a service read again, or publish again."),
        "skip": _Entry("repair.dead_letters", "Move a stopped service past one record."),
    },
    "Set up": {
        "config": _Entry("setup.config", "Make, check, show and compare settings."),
        "topics": _Entry("setup.topics", "Create, check and describe topics; access rights."),
        "keys": _Entry("setup.keys", "Make keys that sign events and requests."),
        "run": _Entry("setup.services", "Run services until they are stopped."),
        "bridge": _Entry("setup.services", "Publish for writers that cannot do it."),
        "monitor": _Entry("setup.services", "Export the metrics of the deployment."),
        "broker": _Entry("setup.services", "Run a local Kafka broker, without Docker."),
        "spark-archive": _Entry("setup.services", "Pack a store's client for Spark's executors."),
        "schemas": _Entry("setup.topics", "Avro schemas of the events, and examples."),
        "asyncapi": _Entry("setup.topics", "Print the AsyncAPI document."),
    },
}


class _LazyCommands(UserDict[str, Any]):
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
        if isinstance(found, _Entry):
            found = self.data[name] = _imported(name, found)
        return found


def _imported(name: str, entry: _Entry) -> Any:  # noqa: ANN401 - typer's own click
    module = import_module(f"tidegate.cli.{entry.module}")
    command = getattr(module, name.replace("-", "_"))
    root = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        root.add_typer(command, name=name, cls=_CommandGroup)
    else:
        root.command(name)(command)
    _describe(root)
    return typer.main.get_group(root).commands[name]


def _describe(app: typer.Typer) -> None:
    """Take options and help of every command from its docstring; examples are shown last."""
    from tidegate.cli.options import parameters, sections  # noqa: PLC0415 - heavy

    for info in app.registered_commands:
        if (command := info.callback) is None:
            continue
        parts = sections(command.__doc__)
        info.help = parts[""]
        if examples := parts.get("Examples"):
            # a line that is indented more goes on with the one before it
            lines = indent(dedent(examples).replace("\n    ", " "), "  ")
            epilog = [f"\b\nExamples:\n{lines}"]  # \b: typer leaves the lines as they are
            if "--wait" in examples.split():  # it exits by the outcome
                epilog.append(table())
            info.epilog = "\n\n".join(epilog)
        if not hasattr(command, "__signature__"):
            vars(command)["__signature__"] = inspect.Signature(parameters(command))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _describe(group.typer_instance)


class _CommandGroup(TyperGroup):
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


class _CommandTree(TyperGroup):
    """The `tidegate` command, which lists its commands by group."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - typer's
        """Know the commands' names."""
        super().__init__(**attrs)
        self.commands = _LazyCommands()

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - click's
        """Run a command; a wrong value of an option is reported in our words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            errors = getattr(error.__cause__, "errors", None)  # pydantic's: typer parses with it
            if errors is not None:
                from tidegate.errors.validation import problem_of  # noqa: PLC0415

                error.message = problem_of(errors()[0])
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - click's
        """Write the list of commands."""
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])


app = typer.Typer(
    name="tidegate",
    cls=_CommandTree,
    help="Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events.",
    epilog=table(),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - heavy

        write(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def _global_options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keeper of lakehouse tables: savepoints, restores and clean-up, driven by events."""
