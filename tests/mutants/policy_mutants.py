"""Rules of savepoint policies and of the removal of savepoints, each broken on purpose."""

from __future__ import annotations

from typing import Final

from mutants.mutants import Mutant

_LIFE: Final = "tests/savepoints/test_policy_life.py"
_PROPERTIES: Final = "tests/savepoints/test_policy_properties.py"
_HOSTILE: Final = "tests/savepoints/test_policy_hostile.py"
_REMOVAL: Final = "tests/savepoints/test_savepoint_removal.py"
_TICKS: Final = "tests/runtime/test_ticks.py"
_SETTINGS: Final = "tests/service/settings/test_savepoint_settings.py"

POLICY_MUTANTS: Final = (
    Mutant(
        "policies: the newest savepoint of a tier stays, whatever its age",
        "consumers/tidegate/savepoints/retention.py",
        (
            (
                "    held = newest_of_tiers(rule, own).union(*(_held(",
                "    held = frozenset[str]().union(*(_held(",
            ),
        ),
        f"{_PROPERTIES} {_LIFE}",
    ),
    Mutant(
        "policies: a maximum leaves each tier its newest",
        "consumers/tidegate/savepoints/retention.py",
        ((" and s.instant not in protected]", "]"),),
        _HOSTILE,
    ),
    Mutant(
        "policies: only its own savepoints are a policy's to remove",
        "consumers/tidegate/savepoints/retention.py",
        (("(each for each in savepoints if each.policy == rule.name)", "savepoints"),),
        f"{_LIFE} {_PROPERTIES}",
    ),
    Mutant(
        "policies: the maximum number holds",
        "consumers/tidegate/savepoints/retention.py",
        (("return dict.fromkeys(oldest[: max(0, excess)], why)", "return {}"),),
        f"{_LIFE} {_PROPERTIES}",
    ),
    Mutant(
        "policies: the minimum gap holds",
        "consumers/tidegate/savepoints/schedule.py",
        (("    if _is_within_gap(rule, state, at):\n", "    if not rule:\n"),),
        f"{_LIFE} {_PROPERTIES}",
    ),
    Mutant(
        "policies: a refused removal is another request the next time",
        "consumers/tidegate/savepoints/policy.py",
        (('"attempt": entry.asked,', '"attempt": 0,'),),
        _LIFE,
    ),
    Mutant(
        "policies: a savepoint stays while somebody is about to restore to it",
        "consumers/tidegate/savepoints/policy.py",
        (("            and not state.is_wanted(each.instant, at)\n", ""),),
        _HOSTILE,
    ),
    Mutant(
        "removals: a slow writer looks once more at what it removes",
        "consumers/tidegate/savepoints/removal.py",
        (
            (
                "            if writer.table.read(plan.instant) != plan.content:\n",
                "            if False:\n",
            ),
        ),
        _REMOVAL,
    ),
    Mutant(
        "removals: what a person asked for as well stays",
        "consumers/tidegate/savepoints/executor.py",
        (("        if not is_wish(command, there):\n", "        if there:\n"),),
        "tests/savepoints/test_savepoint_claims.py",
    ),
    Mutant(
        "removals: a wish that comes during the removal counts",
        "consumers/tidegate/savepoints/removal.py",
        (("            check_claims(table, command, self.clock())\n", ""),),
        "tests/savepoints/test_savepoint_claims.py",
    ),
    Mutant(
        "removals: the writer's own clock is asked, too",
        "consumers/tidegate/savepoints/removal_plan.py",
        (("        _check_time(plan, command, now)\n", ""),),
        _REMOVAL,
    ),
    Mutant(
        "policies: a clock that was wrong once stops no savepoints",
        "schemas/tidegate/hudi/instant_time.py",
        (("    return moment > now + CLOCK_TOLERANCE\n", "    return False\n"),),
        f"{_HOSTILE} {_REMOVAL}",
    ),
    Mutant(
        "removals: what a service may remove is what the table itself says",
        "consumers/tidegate/savepoints/removal_plan.py",
        (("    if mark is None or mark.policy != command.policy:\n", "    if mark is None:\n"),),
        _REMOVAL,
    ),
    Mutant(
        "removals: a savepoint of unknown origin counts as a person's",
        "consumers/tidegate/savepoints/removal_plan.py",
        (
            (
                "    return command.policy is not None or command.by_lifetime\n",
                "    return command.by_lifetime\n",
            ),
        ),
        _REMOVAL,
    ),
    Mutant(
        "removals: the table has a newer savepoint of each tier",
        "consumers/tidegate/savepoints/removal_plan.py",
        ((" and _order(other, instant) > own:", ":"),),
        _REMOVAL,
    ),
    Mutant(
        "removals: a removal during which a restore began is taken back",
        "consumers/tidegate/savepoints/removal.py",
        (("            self._take_back(writer, kept)\n", ""),),
        _REMOVAL,
    ),
    Mutant(
        "removals: the timeline is read again once the savepoint is a pending one",
        "consumers/tidegate/savepoints/removal.py",
        (
            (
                "            check_no_restore(table.reloaded().timeline)",
                "            check_no_restore(table.timeline)",
            ),
        ),
        _REMOVAL,
    ),
    Mutant(
        "removals: a repeated request does not remove what was made again since",
        "consumers/tidegate/savepoints/removal.py",
        (("        store.put(command.event_id, removed)\n", ""),),
        _REMOVAL,
    ),
    Mutant(
        "ticks: an old record does not turn time back",
        "consumers/tidegate/runtime/decider/ticks.py",
        (("if self._offset is None or offset > self._offset:", "if offset:"),),
        _TICKS,
    ),
    Mutant(
        "ticks: a record of the future makes nothing due early",
        "consumers/tidegate/runtime/decider/ticks.py",
        (("min(self._elapsed() + self._offset, self._own())", "self._elapsed() + self._offset"),),
        _TICKS,
    ),
    Mutant(
        "settings: a policy without an end has to say so",
        "consumers/tidegate/service/settings/savepoints.py",
        (
            (
                "            if tier.keep is None and tier.lifetime is None:\n",
                "            if tier.keep == 0:\n",
            ),
        ),
        _SETTINGS,
    ),
)
