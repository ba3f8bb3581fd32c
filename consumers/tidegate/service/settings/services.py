"""How the services work: settings for all of them, and those of one service."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tidegate.errors import validation
from tidegate.events.topics import SERVICES
from tidegate.service.settings.section import Section
from tidegate.service.settings.sources import merged


class _RetrySettings(Section, frozen=True):
    """How transient faults are retried; each service has its own defaults.

    After the last attempt an executor dead-letters the command; the coordinator, which depends on
    nothing but the broker, stops.
    """

    attempts: int | None = Field(default=None, ge=1)
    """How often in all; by default 150 for work on tables, 8 for the broker."""
    first_wait_ms: int | None = Field(default=None, ge=1)
    """The longest wait after the first failure; it doubles with each; by default 200."""
    longest_wait_ms: int | None = Field(default=None, ge=1)
    """No wait is longer; by default 60000 for work on tables, 30000 for the broker."""


class _DeadLetterSettings(Section, frozen=True):
    """A service stops after it failed on more than `max_failures` of `window` valid messages.

    They are counted by partition, and must be of several tables. Invalid messages, and locations
    that refuse, never count. If both are the same, the service never stops for this reason.
    """

    max_failures: int = Field(default=50, ge=0)
    """How many."""
    window: int = Field(default=100, ge=1, le=1000)
    """Among how many."""


def _instance_id() -> str | None:
    """A field for a process's name among those of a service."""
    field: str | None = Field(default=None, pattern=validation.HEADER)
    return field


class _Limits(Section, frozen=True):
    """The limits of a service, and the instance that this process is of it."""

    instance_id: str | None = _instance_id()
    retries: _RetrySettings = _RetrySettings()
    dead_letters: _DeadLetterSettings = _DeadLetterSettings()

    def over(self, common: _Limits) -> _Limits:
        """These limits, completed by those of all services."""
        return _Limits(
            instance_id=self.instance_id or common.instance_id,
            retries=common.retries.model_copy(update=_set(self.retries)),
            dead_letters=common.dead_letters.model_copy(update=_set(self.dead_letters)),
        )


class ServiceSettings(Section, frozen=True):
    """How the services work; the limits of one service are under its name."""

    threads: int = Field(default=4, ge=1)
    """How many tables an executor works on at the same time.

    A command that has been running for a minute no longer counts, so that one that hangs holds up
    no other table; with those there are at most four times as many.
    """
    session_timeout_ms: int = Field(default=10_000, ge=1_000)
    """How long after its last heartbeat a process loses its partitions.

    With an `instance_id`, also how long they wait for a process that was stopped: longer than a
    restart takes.
    """
    instance_id: str | None = _instance_id()
    """The name of this process among those of a service: unique, and the same after a restart.

    It makes the process a static member of its groups: started again within the session's time, it
    gets its partitions back without interrupting other members. Empty: a dynamic member.
    """
    stop_seconds: float = Field(default=25, ge=1, allow_inf_nan=False)
    """How long after SIGTERM a process may still run; then it ends by force, whatever it is doing.

    Keep it below the time after which a supervisor sends SIGKILL: 30 s on Kubernetes by default.
    """
    retries: _RetrySettings = _RetrySettings()
    dead_letters: _DeadLetterSettings = _DeadLetterSettings()
    coordinator: _Limits = _Limits()
    savepoint_writer: _Limits = _Limits()
    restorer: _Limits = _Limits()
    cleaner: _Limits = _Limits()

    @model_validator(mode="before")
    @classmethod
    def _take_service_names(cls, content: dict[str, object]) -> dict[str, object]:
        """A service's name has dashes in the file; a variable and this model have underscores."""
        found: dict[str, object] = {}
        for name, value in content.items():
            found = merged(found, {name.replace("-", "_"): value})
        return found

    @model_validator(mode="after")
    def _check_dead_letters(self) -> Self:
        for name in SERVICES:
            limits = self.limits_of(name).dead_letters
            if limits.max_failures > limits.window:
                raise ValueError(
                    f"dead_letters of {name}: max_failures ({limits.max_failures}) exceeds window"
                    f" ({limits.window})"
                )
        return self

    def limits_of(self, service: str) -> _Limits:
        """The limits of a service: its own, completed by those of all."""
        own: _Limits = getattr(self, service.replace("-", "_"))
        common = _Limits(
            instance_id=self.instance_id, retries=self.retries, dead_letters=self.dead_letters
        )
        return own.over(common)


def _set(section: Section) -> dict[str, object]:
    return section.model_dump(exclude_unset=True)
