"""What all parts of the settings have in common."""

from __future__ import annotations

from pydantic import BaseModel


class Section(BaseModel, frozen=True, extra="forbid"):
    """A part of the settings; a misspelt name is an error."""
