"""The only code that can write or remove table files, confined to the warehouse roots."""

from __future__ import annotations

from tidegate.tables.warehouse.changes import MayGo, Move, Moved, OpenFolder
from tidegate.tables.warehouse.roots import WarehouseRoots
from tidegate.tables.warehouse.writer import AlreadyExists, Warehouse

__all__ = ["AlreadyExists", "MayGo", "Move", "Moved", "OpenFolder", "Warehouse", "WarehouseRoots"]
