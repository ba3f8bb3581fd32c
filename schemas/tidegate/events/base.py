"""What every event carries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from tidegate.events.identity import derived_id, table_identity

Text = Annotated[str, Field(min_length=1)]
TableIdentity = Annotated[str, AfterValidator(table_identity)]
Count = Annotated[int, Field(ge=0)]


class Value(BaseModel, frozen=True, extra="forbid"):
    """A part of an event: immutable, and closed to fields that the schema does not know."""


class Event(Value, frozen=True):
    """A fact, a command or an outcome.

    Subclasses name in `identified_by` the fields whose values make the event: where no `event_id`
    is given it is derived from them, so the same cause always gives the same id.
    """

    identified_by: ClassVar[tuple[str, ...]]

    event_id: str = ""
    table: TableIdentity
    location: Text
    occurred_at: AwareDatetime
    said_by: Text
    caused_by: Text | None = None

    @model_validator(mode="after")
    def _derive_id(self) -> Self:
        if not self.event_id:  # derived from what was validated: a list and a tuple are one
            parts = (_plain(getattr(self, field)) for field in self.identified_by)
            # frozen for everybody else: nobody has seen it yet
            vars(self)["event_id"] = derived_id(type(self).__name__, *parts)
            self.__pydantic_fields_set__.add("event_id")
        return self

    @classmethod
    def about(cls, cause: Event, **fields: Any) -> Self:  # noqa: ANN401 - checked by the model
        """Make an event that `cause` gave rise to, on the same table."""
        subject = {"table": cause.table, "location": cause.location, "caused_by": cause.event_id}
        return cls.model_validate(subject | fields)


def _plain(value: object) -> object:
    """One form for a moment, in whichever time zone it was told."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


class Fact(Event, frozen=True):
    """Something that happened outside, told in the past tense."""


class Command(Event, frozen=True):
    """Something that a person or a decider asks for."""


class Caused(Event, frozen=True):
    """An event that can't be without a cause: it is identified by its kind and that cause."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by",)

    @model_validator(mode="after")
    def _has_a_cause(self) -> Self:
        if self.caused_by is None:
            raise ValueError(f"a {type(self).__name__} names the event that caused it")
        return self


class Outcome(Caused, frozen=True):
    """What a service did, or why it did not."""
