"""Whose signatures the services trust, and with which key this process signs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator

from tidegate.errors import validation
from tidegate.events.fields import Name
from tidegate.events.signature import KeyRole
from tidegate.events.topics import Role
from tidegate.service.settings.section import Section
from tidegate.storage import normalise

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


class SecuritySettings(Section, frozen=True):
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

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.require_signatures and not self.keys:
            raise ValueError("require_signatures without keys: every command would be refused")
        return self
