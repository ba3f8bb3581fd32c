"""The doctor: independent checks of a deployment, each with what was seen and what to do."""

from __future__ import annotations

from tidegate.doctor.examination import Extras, examine
from tidegate.doctor.finding import Finding, State

__all__ = ["Extras", "Finding", "State", "examine"]
