"""A bounded world of readers, writers, vacuums and services, and every order of their steps.

The gate, the planner, the matching of holds and the rules of directory names inside are the real
ones; the Metastore, the topics and the disk are values. After every step all readers are looked at.
"""

from support.interleavings.explore import Explored, Violation, explore
from support.interleavings.metastore import IDS
from support.interleavings.scenario import FAULTS, Faults, Role, Scenario
from support.interleavings.steps import Model, Rules

__all__ = [
    "FAULTS",
    "IDS",
    "Explored",
    "Faults",
    "Model",
    "Role",
    "Rules",
    "Scenario",
    "Violation",
    "explore",
]
