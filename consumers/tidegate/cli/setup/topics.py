"""`tidegate topics`: describe, create and check the topics of a deployment."""

from __future__ import annotations

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import AsJsonLines, ConfigFile
from tidegate.cli.output import write, write_blocks, write_json, write_json_lines
from tidegate.ops.acls import acls
from tidegate.ops.topics import check_topics, create_topics
from tidegate.service.settings import Settings
from tidegate.service.topics import DeclaredTopic, deployment

topics = typer.Typer(help="Describe, create and check topics.", no_args_is_help=True)


@topics.command()
def create(as_json: AsJsonLines = False, config: ConfigFile = None) -> None:
    """Create missing topics; refuse existing topics that differ from their declarations.

    Examples:
        tidegate topics create
    """
    settings = reachable(config)
    for name, new in create_topics(settings.connection(), settings.topics).items():
        if as_json:
            write_json({"topic": name, "created": new})
        else:
            write(f"{name}: {'created' if new else 'exists already'}")


@topics.command()
def describe(as_json: AsJsonLines = False, config: ConfigFile = None) -> None:
    """Show the declared topics, without contacting a broker.

    Examples:
        tidegate topics describe --json | jq .topic
    """
    declared = deployment(Settings.load(config).topics)
    if as_json:
        write_json_lines(topic.as_json() for topic in declared)
        return
    write_blocks([_described(topic) for topic in declared])


@topics.command()
def check(as_json: AsJsonLines = False, config: ConfigFile = None) -> None:
    """Compare topics with their declarations: one line per difference; exit code 1 if any.

    Examples:
        tidegate topics check
    """
    settings = reachable(config)
    found = check_topics(settings.connection(), settings.topics)
    if as_json:
        write_json_lines(found)
    else:
        for difference in found or ["the topics are as declared"]:
            write(str(difference))
    raise typer.Exit(1 if found else 0)


@topics.command("acls")
def print_acls(config: ConfigFile = None, as_json: AsJsonLines = False) -> None:
    """Print the access rights that every role needs, as kafka-acls commands.

    The principals are those of [security.principals], else `User:` and the role's name.

    Examples:
        tidegate topics acls
    """
    settings = Settings.load(config)
    needed = acls(settings.topics.prefix, principals=settings.security.principals)
    if as_json:
        write_json_lines(needed)
        return
    for acl in needed:
        write(acl.command())


def _described(declared: DeclaredTopic) -> dict[str, object]:
    topic, settings = declared.topic, declared.settings()
    return {
        "topic": declared.name,
        "partitions": declared.partitions,
        "replicas": declared.replication,
        "retention": f"{topic.retention.days} days" if topic.retention else "forever",
        "cleanup": settings["cleanup.policy"],
        "timestamps": settings["message.timestamp.type"],
        "written by": topic.written_by,
        "read by": topic.read_by,
        "events": [kind.__name__ for kind in topic.events],
    }
