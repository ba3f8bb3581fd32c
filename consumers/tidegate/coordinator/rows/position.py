"""The position: how far the inputs are applied. Its record ends a batch of the changelog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from tidegate.errors import ConfigError, FormatError, OffsetGapError
from tidegate.errors.commands import command_line
from tidegate.events.topics import Role
from tidegate.runtime.bus import Partition, Watermarks

POSITION_KEY: Final = b"\x00position"
"""No table's identity begins with a zero byte, or contains one."""
_HOW_TO_GO_ON: Final = (
    "Find out what is missing; to go on with what the topic holds now, reset the service with"
    " `tidegate replay group`"
)


@dataclass(slots=True)
class Position:
    """How far the inputs are applied, and on which topics those offsets are."""

    offsets: dict[str, int] = field(default_factory=dict[str, int])
    """By input topic the offset to apply next."""
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    """The broker's ids: offsets mean nothing on another topic of the same name."""
    sequence: int = 0
    """The last number of the rows that are in a sequence."""
    partitions: int | None = None
    """For how many partitions the rows were made: with more a table may be on another."""
    rebuilt_to: dict[str, int] = field(default_factory=dict[str, int])
    """Where there were no rows, by input the offset up to which they are made again: what its
    events led to may be done already."""

    def record(self) -> tuple[bytes, bytes]:
        """The record that ends a batch."""
        return POSITION_KEY, _POSITION.dump_json(self)

    def check(self, topic: str, watermarks: Watermarks, start: int | None) -> None:
        """Compare the position with an input topic as it is now.

        Args:
            topic: The input.
            watermarks: Of its partition.
            start: The group's committed offset; None: it has none.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost what followed from
                events whose offsets are committed.
        """
        at = self.offsets.setdefault(topic, watermarks.first)
        if self.topic_ids.setdefault(topic, watermarks.topic_id) != watermarks.topic_id:
            raise OffsetGapError(
                f"{topic} was deleted and created again since its offset {at} was applied: events"
                f" may be lost. {_HOW_TO_GO_ON}"
            )
        if start is not None and start > at:
            raise OffsetGapError(
                f"{topic} is committed up to offset {start}, but the state was written only up to"
                f" {at}: the changelog has lost what was decided in between. {_HOW_TO_GO_ON}"
            )
        if not watermarks.first <= at <= watermarks.end:
            raise OffsetGapError(
                f"offset {at} of {topic} is to be applied next, but it holds {watermarks.first} to"
                f" {watermarks.end}: events would be skipped. {_HOW_TO_GO_ON}"
            )

    @property
    def is_new(self) -> bool:
        """Whether no coordinator has had the rows: the changelog is new."""
        return self.partitions is None

    def check_partitions(self, count: int) -> None:
        """Compare the number of partitions that the rows were made for with the topics'.

        Raises:
            ConfigError: it is another: some tables' events would now arrive on a partition that
                does not have their rows.
        """
        if self.is_new:
            self.partitions = count
        if self.partitions != count:
            raise ConfigError(
                f"the topics have {count} partitions, but the state was made for"
                f" {self.partitions}: the state of some tables is on another partition than their"
                " events. Move to new topics: see More partitions in docs/topics.md"
            )

    @classmethod
    def of(cls, value: bytes) -> Position:
        """Parse the record's value.

        Raises:
            FormatError: it is not a position.
        """
        try:
            return _POSITION.validate_json(value)
        except ValueError as error:
            raise FormatError(f"the changelog can't be read: {error}") from error


_POSITION: Final = TypeAdapter(Position)


def lost_head(where: Partition, first: int) -> str | None:
    """Why rows are missing from a changelog's partition; None if none are.

    Args:
        where: The partition.
        first: Its first offset. Compaction never moves it, whatever it removes.
    """
    if not first:
        return None
    return (
        f"{where.topic}[{where.number}] begins at offset {first}: its first records were deleted,"
        " so rows of tables are missing. With cleanup.policy = compact, and nothing else, Kafka"
        " deletes none"
    )


def new_changelog(topic: str) -> str:
    """The commands after which the coordinator rebuilds its rows from its inputs."""
    again = command_line(
        "replay group", Role.COORDINATOR, to_earliest=True, with_restores=True, execute=True
    )
    return (
        "wait until the workers have no lag, stop the coordinator (events that its topics no longer"
        " have are lost), then run, where BROKERS has the addresses of the brokers: kafka-topics"
        f' --bootstrap-server "$BROKERS" --delete --topic {topic}'
        f" && {command_line('topics create')} && {again}"
    )
