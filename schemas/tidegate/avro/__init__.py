"""Avro schemas of other writers. Pure."""

from __future__ import annotations

from tidegate.avro.writer_schema import SchemaLimits, read_schema

__all__ = ["SchemaLimits", "read_schema"]
