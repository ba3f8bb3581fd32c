"""How a deployment is: its services, what waits, what runs, what was saved. Read off Kafka."""

from __future__ import annotations

from tidegate.ops.status.looking import look
from tidegate.ops.status.snapshot import ServiceStatus, Snapshot

__all__ = ["ServiceStatus", "Snapshot", "look"]
