"""Schemas from a schema registry with Confluent's API: `pip install 'tidegate[registry]'`."""

from __future__ import annotations

from tidegate.registry.client import RegistryClient
from tidegate.registry.schemas import RegistrySchemas, subject_of, wire_for
from tidegate.registry.settings import RegistrySettings

__all__ = ["RegistryClient", "RegistrySchemas", "RegistrySettings", "subject_of", "wire_for"]
