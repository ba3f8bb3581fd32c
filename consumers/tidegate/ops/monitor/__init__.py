"""Metrics of a complete deployment, read from the broker by a separate service."""

from tidegate.ops.monitor.deployment import DeploymentMonitor, MonitorHealth

__all__ = ["DeploymentMonitor", "MonitorHealth"]
