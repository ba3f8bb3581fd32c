"""Processes that publish on behalf of systems which can't: the bridge to a Hive Metastore."""

from __future__ import annotations

from tidegate.bridges.metastore import MetastoreBridgeLoop

__all__ = ["MetastoreBridgeLoop"]
