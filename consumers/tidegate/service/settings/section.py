"""The base class of all sections of the settings."""

from __future__ import annotations

from pydantic import BaseModel


class Section(
    BaseModel,
    frozen=True,
    extra="forbid",
    hide_input_in_errors=True,
    populate_by_name=True,
    use_attribute_docstrings=True,
):
    """A section of the settings. Unknown names are errors, and no error quotes a value."""
