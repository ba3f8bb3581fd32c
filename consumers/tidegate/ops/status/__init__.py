"""The status of a deployment, read from Kafka: services, waiting vacuums, requests, savepoints."""

from __future__ import annotations

from tidegate.ops.status.reading import read_snapshot
from tidegate.ops.status.snapshot import ServiceStatus, Snapshot

__all__ = ["ServiceStatus", "Snapshot", "read_snapshot"]
