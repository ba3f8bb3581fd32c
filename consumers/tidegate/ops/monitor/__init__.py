"""Metrics of a whole deployment, read off the broker by a service of its own."""

from tidegate.ops.monitor.deployment import DeploymentMonitor, MonitorHealth

__all__ = ["DeploymentMonitor", "MonitorHealth"]
