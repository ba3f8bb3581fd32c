"""The base classes of events, the fields that every event has, and the verdict of an outcome."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from tidegate.errors import validation
from tidegate.events.fields import (
    Location,
    LongText,
    Message,
    Name,
    Path,
    Text,
    derived_id,
    table_identity,
)


class Verdict(StrEnum):
    """How far a request is."""

    DONE = "done"
    """It was carried out, now or before."""
    REFUSED = "refused"
    """Nothing was changed, and nothing more will be done for this request."""
    FAILED = "failed"
    """It was begun and could not be finished, or it could not be processed at all."""
    AWAITING = "awaiting"
    """Another person has to approve it; nothing was changed so far."""
    UNDER_WAY = "under-way"
    """There will be another outcome."""
    UNANSWERED = "unanswered"
    """No final outcome came in time; it may still come."""


def answered_by(outcome: Event) -> frozenset[str]:
    """The ids of what an outcome answers: its cause, and the approval that a restore ran under."""
    ids = (outcome.caused_by, getattr(outcome, "approval", None))
    return frozenset(id_ for id_ in ids if id_ is not None)


def causes_of_answers(event_id: str) -> frozenset[str]:
    """The ids that the outcomes of an event have as their cause.

    A request is answered itself. A vacuum is answered through the command that the reader gate
    derives from it, whose id follows from the vacuum's.
    """
    return frozenset({event_id, derived_id("CleaningReleased", event_id)})


EventId = Annotated[str, Field(pattern=validation.ID_OR_NONE)]
"""A word of up to 100 characters; empty until it is derived."""
TableIdentity = Annotated[str, Field(max_length=500), AfterValidator(table_identity)]


class Value(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """A part of an event: immutable, and without fields that the schema does not have."""


class Event(Value, frozen=True):
    """A fact, a command or an outcome.

    Subclasses list in `identified_by` the fields that identify the event. Without an `event_id` it
    is derived from their values, so that a repeated event has the same id.
    """

    identified_by: ClassVar[tuple[str, ...]]

    event_id: EventId = ""
    table: TableIdentity
    location: Path
    occurred_at: AwareDatetime
    source: Name
    caused_by: Text | None = None

    @model_validator(mode="after")
    def _set_id(self) -> Self:
        event_id = self.checked_id()
        if event_id != self.event_id:
            # the model is frozen, but no other code has a reference yet
            vars(self)["event_id"] = event_id
            self.__pydantic_fields_set__.add("event_id")
        return self

    def checked_id(self) -> str:
        """The event's id: the one that it came with, else the derived one.

        Raises:
            ValueError: the event can't have the id that it came with.
        """
        return self.event_id or self.content_id()

    def content_id(self) -> str:
        """The id derived from what identifies the event; never from a clock."""
        # from validated values: a list and a tuple are equal then
        return derived_id(type(self).__name__, *map(partial(getattr, self), self.identified_by))

    @classmethod
    def about(cls, cause: Event, **fields: Any) -> Self:  # noqa: ANN401 - checked by the model
        """Make an event caused by `cause`, about the same table."""
        subject = {"table": cause.table, "location": cause.location, "caused_by": cause.event_id}
        return cls.model_validate(subject | fields)


class Fact(Event, frozen=True):
    """Something that happened outside Tidegate.

    The id always belongs to the content, also when it was read from a topic: otherwise a writer
    could publish another fact under the id of a real one, and the real one would be taken for a
    repeat.
    """

    location: Location

    def checked_id(self) -> str:
        """The id derived from the content.

        Raises:
            ValueError: the event came with another id.
        """
        own, given = self.content_id(), self.event_id
        if given in ("", own):
            return own
        raise ValueError("event_id is not the id of this content; leave it out and it is derived")


class Command(Event, frozen=True):
    """Something that a person or the coordinator requests."""

    @property
    def asked_by(self) -> str:
        """The requester's name in the command. It is not verified: any writer can set it."""
        return str(getattr(self, "requested_by", self.source))

    @property
    def asked_why(self) -> str | None:
        """The reason that the command gives, if any."""
        return getattr(self, "reason", None) or getattr(self, "comment", None)


class Request(Command, frozen=True):
    """A command that a person or the coordinator may send.

    A person's request has an id of its own, made before the first attempt to publish it and kept by
    every retry: the same id twice is one request, and the same values under two ids are two. The
    id of the coordinator's is derived from its cause.
    """

    location: Location

    def checked_id(self) -> str:
        """The id that the request came with, else the one derived from its cause.

        Raises:
            ValueError: it has neither an id nor a cause.
        """
        if not self.event_id and self.caused_by is None:
            raise ValueError(
                "event_id is missing: a request without a cause needs an id of its own, which"
                " every retry keeps"
            )
        return super().checked_id()


class ReasonedRequest(Request, frozen=True):
    """A request that names its requester and the reason."""

    requested_by: Name
    reason: Text


class Caused(Event, frozen=True):
    """An event that always has a cause, and is identified by its kind and that cause."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by",)

    @model_validator(mode="after")
    def _has_a_cause(self) -> Self:
        if self.caused_by is None:
            raise ValueError(f"{type(self).__name__} needs caused_by: the event that caused it")
        return self


class Outcome(Caused, frozen=True):
    """What a service did, or why it refused."""

    means: ClassVar[Verdict] = Verdict.UNDER_WAY
    """The verdict on the request, of most kinds: those that end it set another one."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the request; never UNANSWERED."""
        return self.means


class Alarm(Outcome, frozen=True):
    """Something needs a person: people are notified of it, and `tidegate status` lists it.

    It is open until an outcome ends it; see `Recent` in `tidegate.ops.recent`.
    """


class TableAlarm(Alarm, frozen=True):
    """An alarm about a table, not about one request: open until a TableAlarmEnded of its kind.

    `tidegate status` and the next steps of `tidegate explain` have its message.
    """


class TableAlarmEnded(Outcome, frozen=True):
    """The end of an alarm about a table."""

    ends: ClassVar[type[TableAlarm]]
    """The kind of that alarm."""


class Answer(Outcome, frozen=True):
    """The outcome of a command. Who asked, and why, is kept as long as outcomes are."""

    requested_by: Name | None = None
    why: LongText | None = None
    signed_by: Name | None = None

    def to(self, command: Command, signed_by: str | None = None) -> Self:
        """The same outcome with the requester and reason of `command`.

        `signed_by` is the name whose key signed the command; None: no signature was verified.
        """
        asked = {"requested_by": command.asked_by, "why": command.asked_why, "signed_by": signed_by}
        return type(self).model_validate(self.model_dump() | asked)


class Refusal(Answer, frozen=True):
    """A command was refused. `reason` is a code of `Reason`."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    reason: Text
    message: Message
