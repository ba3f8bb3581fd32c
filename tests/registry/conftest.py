"""Schemas in the registry that confluent-kafka's client carries for tests."""

from __future__ import annotations

import pytest

from tidegate.registry import RegistrySchemas, RegistrySettings


@pytest.fixture
def in_memory() -> RegistrySchemas:
    return RegistrySchemas(RegistrySettings(url="mock://tests"))
