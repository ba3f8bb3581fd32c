"""The sections of the settings that concern alarms, cleaning, signatures and the services."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator

from tidegate.errors import validation
from tidegate.errors.commands import with_key
from tidegate.events.fields import Name
from tidegate.events.signature import KeyRole
from tidegate.events.topics import SERVICES, Role
from tidegate.service.settings.sources import merged
from tidegate.storage import normalise
from tidegate.tables.settings import Section

Principal = Annotated[str, StringConstraints(pattern=validation.PRINCIPAL)]
"""Kafka's name of a principal: its type and its name, `User:CN=orders,OU=sales`."""


class _KeySettings(Section, frozen=True):
    """A public key: whose it is, what it may sign, and when. A name may have several keys."""

    name: Name
    """Whose key it is: a person or a service. Outcomes keep it as `signed_by`."""
    public_key: str = Field(repr=False)
    """PEM, as `tidegate keys show` prints it; `${file:/path}` reads it from a file."""
    roles: tuple[KeyRole, ...] = Field(min_length=1)
    """`writer` signs vacuums, releases and aborted writes; `requester` savepoints, restores and
    undos; `approver` approvals; `holder` holds of the cleaning; `coordinator` tasks; `worker`
    outcomes of the cleaner, the savepoint writer and the restorer."""
    tables: tuple[Name, ...] = ("*",)
    """Shell patterns of the tables, as catalog.database.table. A signer chooses both a table's name
    and its location, so give both or neither; a `holder` signs for names alone."""
    locations: tuple[Annotated[str, AfterValidator(normalise)], ...] = ()
    """The tables' directories, or directories above them, as they are written in events; empty:
    everywhere."""
    not_after: AwareDatetime | None = None
    """Trusted until this time, compared with the broker's time of the command."""

    @model_validator(mode="after")
    def _has_tables_and_locations(self) -> Self:
        if self.tables == ("*",) and self.locations:
            raise ValueError(
                f"the key of {self.name} has locations and no tables: holds and releases are by"
                " name, which a signer chooses; add the names"
            )
        if self.tables != ("*",) and not self.locations and set(self.roles) != {KeyRole.HOLDER}:
            raise ValueError(
                f"the key of {self.name} has tables and no locations: a signer chooses the name;"
                " add the directories"
            )
        return self


class SecuritySettings(Section, frozen=True, title="[security]"):
    """Signatures of all events that services act on, but for commits; else only ACLs guard."""

    require_signatures: bool = False
    """Refuse commands, vacuums, releases, aborted writes and outcomes without a good signature."""
    sign_with: Path | None = None
    """The file of the private key with which this process signs what it publishes. Where signatures
    are required, every service and the Metastore bridge need one whose roles permit it."""
    keys: tuple[_KeySettings, ...] = ()
    principals: dict[Role, tuple[Principal, ...]] = Field(default_factory=dict)
    """By role, the Kafka principals to which `topics acls` grants its rights, for example
    `User:CN=orders,OU=sales`. The default of a role is `User:` and its name."""

    def suggested(self, text: str) -> str:
        """A text whose suggested commands sign what they publish, where that is required."""
        return with_key(text) if self.require_signatures and self.sign_with is None else text

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.require_signatures and not self.keys:
            raise ValueError("require_signatures without keys: every command would be refused")
        return self


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


class _Limits(Section, frozen=True):
    """The limits of a service, and the instance that this process is of it."""

    instance_id: str | None = Field(default=None, pattern=validation.HEADER)
    retries: _RetrySettings = _RetrySettings()
    dead_letters: _DeadLetterSettings = _DeadLetterSettings()

    def over(self, common: _Limits) -> _Limits:
        """These limits, completed by those of all services."""
        return _Limits(
            instance_id=self.instance_id or common.instance_id,
            retries=common.retries.model_copy(update=_set(self.retries)),
            dead_letters=common.dead_letters.model_copy(update=_set(self.dead_letters)),
        )


class ServiceSettings(_Limits, frozen=True):
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
    instance_id: str | None = Field(default=None, pattern=validation.HEADER)
    """The name of this process among those of a service: unique, and the same after a restart.

    It makes the process a static member of its groups: started again within the session's time, it
    gets its partitions back without interrupting other members. Empty: a dynamic member.
    """
    stop_seconds: float = Field(default=25, ge=1, allow_inf_nan=False)
    """How long after SIGTERM a process may still run; then it ends by force, whatever it is doing.

    Keep it below the time after which a supervisor sends SIGKILL: 30 s on Kubernetes by default.
    """
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
        return own.over(self)


def _set(section: Section) -> dict[str, object]:
    return section.model_dump(exclude_unset=True)
