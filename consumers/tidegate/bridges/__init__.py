"""Processes that publish on behalf of systems which can't: a Hive Metastore, writers of Hudi."""

from __future__ import annotations

from tidegate.bridges.hudi import HudiBridgeLoop
from tidegate.bridges.metastore import MetastoreBridgeLoop

__all__ = ["HudiBridgeLoop", "MetastoreBridgeLoop"]
