"""A deployment as a person finds it: whether its broker answers, and where its tables are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tidegate.cli.options import abbreviated_ids, table_of
from tidegate.cli.output import write_error
from tidegate.errors import ConfigError, StopService
from tidegate.events.fields import absolute
from tidegate.service.settings import Settings


def reachable(config: Path | None) -> Settings:
    """Read the settings of a deployment, and check that its broker is reachable.

    Raises:
        ConfigError: the settings are invalid, or the broker refuses the login.
        TransientError: no broker answers; the message has the cause.
    """
    settings = Settings.load(config)
    check_reachable(settings)
    return settings


def check_reachable(settings: Settings, *topics: str) -> None:
    """Check that the broker is reachable and the topics exist.

    Args:
        settings: The deployment.
        topics: The suffixes of the needed topics, e.g. tasks.

    Raises:
        ConfigError: a topic does not exist, or the broker refuses the login.
        TransientError: no broker answers; the message has the cause.
    """
    from tidegate.runtime.kafka.metadata import KafkaMetadata  # noqa: PLC0415 - heavy
    from tidegate.runtime.retry import ELECTION_RETRIES  # noqa: PLC0415

    metadata = KafkaMetadata.for_people(settings.connection())
    metadata.require_connection()
    for suffix in sorted(topics):
        ELECTION_RETRIES.call(partial(metadata.partitions, f"{settings.topics.prefix}.{suffix}"))


def located(settings: Settings, table: str | None, location: str | None) -> str:
    """The location of a table: the one given, else the one that events name.

    Raises:
        ConfigError: neither is given, the location is relative, no event names the table, or events
            name several locations.
        TransientError: no broker answers.
    """
    if location is not None:
        try:
            return absolute(location)
        except ValueError as error:
            raise ConfigError(f"{location}: {error}") from error
    name = table_of(table)
    if name is None:
        raise ConfigError("give --table, or --location")
    from tidegate.ops.event_log import EventLog  # noqa: PLC0415 - heavy

    found = EventLog.of(settings).location_of(name)
    write_error(f"{name} is at {found}")
    return found


def whole_request_id(settings: Settings, table: str, given: str, *, new: bool) -> str:
    """The id of a table's request, from its first characters; `new`: take it as it is.

    Raises:
        ConfigError: it is empty, no request begins so, or several do.
        StopService: the right to read the requests is missing.
        TransientError: no broker answers.
    """
    [start] = abbreviated_ids((given,))
    if new:
        return start
    from tidegate.ops.event_log import EventLog  # noqa: PLC0415 - heavy

    try:
        return EventLog.of(settings).request_id(table_of(table) or table, start)
    except StopService as denied:
        raise StopService(f"{denied}; --new sends the request's id unchecked") from denied
