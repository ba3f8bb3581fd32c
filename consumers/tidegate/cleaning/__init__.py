"""Cleaning: the reader gate (who still reads), the plan (what may go), the cleaner (the act)."""

from __future__ import annotations

from tidegate.cleaning.cleaner import Cleaner
from tidegate.cleaning.gate import ReaderGate, command_for
from tidegate.cleaning.listing import ListedDirectory, ListedFile
from tidegate.cleaning.looking import look
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.cleaning.waiting import GateState, WaitingVacuum

__all__ = [
    "Cleaner",
    "CleaningPlan",
    "GateState",
    "ListedDirectory",
    "ListedFile",
    "ReaderGate",
    "WaitingVacuum",
    "command_for",
    "look",
    "plan_cleaning",
]
