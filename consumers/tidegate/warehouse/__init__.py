"""Changing tables: the only code of Tidegate that can write or remove, confined to its roots."""

from __future__ import annotations

from tidegate.warehouse.roots import ReachedByLink, WarehouseRoots
from tidegate.warehouse.writer import AlreadyThere, Warehouse

__all__ = ["AlreadyThere", "ReachedByLink", "Warehouse", "WarehouseRoots"]
