"""How the services work: one value for all of them, and what one of them has of its own."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from tidegate.settings.section import Section

_MOST: Final = 50
_OF: Final = 100
_NAMES: Final = ("savepoint-policy", "savepoint-writer", "restorer", "reader-gate", "cleaner")


class RetrySettings(Section, frozen=True):
    """How a fault that may pass by itself is tried again; what is not set is the service's own.

    An executor then sets the command aside; a decider, whose only such fault is the broker's,
    stops.
    """

    attempts: int | None = Field(default=None, ge=1)
    first_wait_ms: int | None = Field(default=None, ge=1)
    longest_wait_ms: int | None = Field(default=None, ge=1)


class DeadLetterSettings(Section, frozen=True):
    """When a service stops because too much fails: at more than `most` dead letters of `of`.

    They are counted by partition. Where both are the same, nothing stops it.
    """

    most: int | None = Field(default=None, ge=0)
    of: int | None = Field(default=None, ge=1, le=1000)


class Limits(Section, frozen=True):
    """The limits of a service."""

    retries: RetrySettings = RetrySettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()

    def over(self, common: Limits) -> Limits:
        """What is set here, and for the rest what is set for all services."""
        return Limits(
            retries=common.retries.model_copy(update=_set(self.retries)),
            dead_letters=common.dead_letters.model_copy(update=_set(self.dead_letters)),
        )

    @property
    def most(self) -> int:
        """So many of the last `of` messages of a partition may become dead letters."""
        return _MOST if self.dead_letters.most is None else self.dead_letters.most

    @property
    def of(self) -> int:
        """Of so many messages the dead letters are counted."""
        return self.dead_letters.of or _OF


class ServiceSettings(Section, frozen=True):
    """How the services work; a service's limits of its own stand under its name."""

    threads: int = Field(default=4, ge=1)
    """Tables that an executor works on at the same time."""
    session_timeout_ms: int = Field(default=10_000, ge=1_000)
    """After this long without a sign of life the broker gives a process's work to another."""
    retries: RetrySettings = RetrySettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    savepoint_policy: Limits = Field(default=Limits(), alias="savepoint-policy")
    savepoint_writer: Limits = Field(default=Limits(), alias="savepoint-writer")
    restorer: Limits = Limits()
    reader_gate: Limits = Field(default=Limits(), alias="reader-gate")
    cleaner: Limits = Limits()

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name in _NAMES:
            limits = self.limits_of(name)
            if limits.most > limits.of:
                told = f"of the last {limits.of} messages {limits.most} can't be dead letters"
                raise ValueError(f"dead_letters of {name}: {told}")
        return self

    def limits_of(self, service: str) -> Limits:
        """The limits of a service: its own, and for the rest those of all."""
        own: Limits = getattr(self, service.replace("-", "_"))
        return own.over(Limits(retries=self.retries, dead_letters=self.dead_letters))


def _set(section: Section) -> dict[str, object]:
    return section.model_dump(exclude_unset=True)
