"""Cleaning: the reader gate (who still reads), the plan (what may go), the cleaner (the act)."""

from __future__ import annotations

from tidegate.cleaning.cleaner import Cleaner
from tidegate.cleaning.gate import GateState, ReaderGate, WaitingVacuum
from tidegate.cleaning.listing import ListedDirectory, ListedFile, look
from tidegate.cleaning.plan import CleaningPlan, Refusal, plan_cleaning

__all__ = [
    "Cleaner",
    "CleaningPlan",
    "GateState",
    "ListedDirectory",
    "ListedFile",
    "ReaderGate",
    "Refusal",
    "WaitingVacuum",
    "look",
    "plan_cleaning",
]
