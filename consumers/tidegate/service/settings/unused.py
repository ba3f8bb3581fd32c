"""Finds rules in the settings that can never apply, as far as the settings show it for certain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, Protocol

from tidegate.errors import FormatError
from tidegate.events.fields import table_identity
from tidegate.restores.settings import RestoreRule
from tidegate.service.settings import Settings
from tidegate.storage import normalise
from tidegate.tables.settings import covers_name, covers_place
from tidegate.tables.warehouse.roots import every_spelling, spellings_of

_WILD: Final = re.compile(r"[*?\[]")
_UNCERTAIN: Final = re.compile(r"[?\[]")


class _Rule(Protocol):
    @property
    def tables(self) -> str: ...


def unused_rules(settings: Settings) -> list[str]:
    """A line for each pattern of tables, rule or directory of a rule that can match no table.

    Raises:
        FormatError: a directory or a root is relative, or has `..`.
    """
    lists: dict[str, Sequence[_Rule]] = {
        "savepoints": settings.savepoints,
        "cleaning.rules": settings.cleaning.rules,
        "restores.rules": settings.restores.rules,
        "alarms": settings.alarms,
    }
    return [
        *(line for name, rules in lists.items() for line in _useless(name, rules)),
        *_outside(settings.restores.rules, settings.warehouse.roots),
    ]


def _useless(section: str, rules: Sequence[_Rule]) -> Iterator[str]:
    for number, rule in enumerate(rules):
        if not _WILD.search(rule.tables):
            try:
                table_identity(rule.tables)
            except FormatError:
                yield (
                    f"{section}.{number}.tables matches no table: {rule.tables!r} is not of the"
                    " form catalog.database.table"
                )
        for before, earlier in enumerate(rules[:number]):
            if _covers(earlier, rule):
                yield (
                    f"{section}.{number} for {rule.tables} never applies: {section}.{before} for"
                    f" {earlier.tables} decides before it"
                )
                break


def _covers(earlier: _Rule, rule: _Rule) -> bool:
    """Whether each table of a rule is certainly one of an earlier rule, too."""
    if earlier.tables.lower() != rule.tables.lower() and (
        # a star of the earlier pattern matches what a star stands for; other signs are uncertain
        _UNCERTAIN.search(earlier.tables + rule.tables)
        or not covers_name(earlier.tables, rule.tables)
    ):
        return False
    first, second = (_locations(it) for it in (earlier, rule))
    return not first or (
        bool(second)
        and all(
            place in first
            or (not _WILD.search(place) and covers_place(every_spelling(first), normalise(place)))
            for place in second
        )
    )


def _locations(rule: _Rule) -> tuple[str, ...]:
    return rule.locations if isinstance(rule, RestoreRule) else ()


def _outside(rules: Sequence[RestoreRule], roots: Sequence[str]) -> Iterator[str]:
    places = [place.split("/") for root in roots for place in spellings_of(root)]
    for number, rule in enumerate(rules if roots else ()):
        for location in rule.locations:
            patterns = [it.split("/") for it in every_spelling([location], roots)]
            if not any(all(map(fnmatchcase, at, it)) for at in places for it in patterns):
                yield (
                    f"restores.rules.{number}.locations: {location} is in none of the roots"
                    f" ({', '.join(roots)}), so it covers no table"
                )
