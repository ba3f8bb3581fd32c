"""The doctor: independent checks of a deployment, each with a finding and advice."""

from __future__ import annotations

from tidegate.ops.doctor.examination import examine
from tidegate.ops.doctor.finding import Finding, Status

__all__ = ["Finding", "Status", "examine"]
