"""A restore's plan as a file: the request is for exactly the plan that a person saw."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import ValidationError

from tidegate.cli.options import read_text
from tidegate.errors import ConfigError
from tidegate.errors.validation import validation_message
from tidegate.events import Value, table_identity

_LIMIT: Final = 2**20
"""Bytes of a file: 50,000 instants."""


class PlanFile(Value, frozen=True):
    """The content of the file. `instants` and the counts are for the people who read it."""

    kind: Literal["tidegate-restore-plan"] = "tidegate-restore-plan"
    version: Literal[1] = 1
    table: str | None = None
    location: str
    savepoint: str
    plan_id: str
    instants: tuple[str, ...]
    files: int
    bytes: int
    resumes: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do: the savepoint is the newest commit."""
        return not self.instants and self.resumes is None

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a file.

        Raises:
            ConfigError: it can't be read, is not a plan, or there is nothing to do.
        """
        try:
            plan = cls.model_validate_json(read_text(file, _LIMIT))
        except ValidationError as error:
            raise ConfigError(
                f"{file} is not a restore's plan: {validation_message(error)}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error
        if plan.is_empty:
            raise ConfigError(
                f"{file}: there is nothing to do, {plan.savepoint} is the table's newest commit"
            )
        return plan

    def completed(self, given: Mapping[str, str | None]) -> dict[str, str | None]:
        """The plan's fields; missing ones come from the options.

        Raises:
            ConfigError: an option contradicts the plan.
        """
        wanted = dict(given)
        for name in given:
            own = getattr(self, name)
            other = given[name]
            if own is not None and other is not None and _plain(name, own) != _plain(name, other):
                raise ConfigError(f"the plan is for {name} {own}, not {other}")
            wanted[name] = own or other
        return wanted


def _plain(name: str, value: str) -> str:
    return table_identity(value) if name == "table" else value
