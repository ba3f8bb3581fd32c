"""Fixtures that every test may use. The real parts start at the first test that asks for them."""

from __future__ import annotations

import importlib.util

pytest_plugins = [
    plugin
    for plugin in ("support.kafka", "support.registry", "support.spark")
    if importlib.util.find_spec(plugin) is not None
]
