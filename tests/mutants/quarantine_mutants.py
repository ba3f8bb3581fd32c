"""What keeps a quarantine, its undo, and people's holds safe."""

from __future__ import annotations

from mutants.mutants import Mutant

_CLEANING = "consumers/tidegate/cleaning/"
_UNDO = _CLEANING + "undo_plan.py"
_HIDES = "schemas/tidegate/hive/hiding.py"
_DISK = "tests/cleaning/test_quarantine.py"
_PLAN = "tests/cleaning/test_undo_plan.py"
_GATE = "tests/cleaning/test_gate_holds.py"
_LOOKUP = "tests/cleaning/test_hold_lookup.py"

QUARANTINE_MUTANTS = (
    Mutant(
        "undo: nothing is put back without a product that hides it",
        _UNDO,
        (("if not any(hides(product, found) for product in complete):", "if False:"),),
        f"{_DISK} -k harm",
    ),
    Mutant(
        "undo: a product without its rows hides nothing",
        _UNDO,
        (("each.listed.is_plain and each.is_complete]", "each.listed.is_plain]"),),
        f"{_DISK} -k harm",
    ),
    Mutant(
        "undo: never a part alone",
        _UNDO,
        (("if gone := sorted(planned - set(kept) - set(there)):", "if gone := list[str]():"),),
        f"{_DISK} -k harm",
    ),
    Mutant(
        "undo: what changed in quarantine stays there",
        _UNDO,
        (("if each.record.directories.get(name) != size:", "if False:"),),
        f"{_DISK} -k harm",
    ),
    Mutant(
        "undo: only what a vacuum is known to have made counts as its product",
        _UNDO,
        (("for each in listing if each.name in known]", "for each in listing]"),),
        f"{_PLAN} -k nobody_is_known",
    ),
    Mutant(
        "undo: delete deltas come back first",
        _UNDO,
        (("(not _deletes(each[0]), each[0])", "(_deletes(each[0]), each[0])"),),
        f"{_DISK} -k come_back_first",
    ),
    Mutant(
        "quarantine: a name in the target is never replaced",
        "consumers/tidegate/tables/warehouse/moves.py",
        (("        if self._is_there(as_name):", "        if False:"),),
        "tests/tables/warehouse/test_moves.py",
    ),
    Mutant(
        "quarantine: what is moved is what was looked at",
        "consumers/tidegate/tables/warehouse/moves.py",
        (("if not os.path.samestat(moved, os.fstat(directory)):", "if False:"),),
        "tests/tables/warehouse/test_moves.py",
    ),
    Mutant(
        "quarantine: the record goes last",
        _CLEANING + "quarantine.py",
        (
            (
                "    for entry in entries:\n        leaving",
                """    for entry in entries:
        warehouse.remove_files([join(entry.path, RECORD)])
        leaving""",
            ),
        ),
        f"{_DISK} -k never_undone_in_part",
    ),
    Mutant(
        "quarantine: the end of one leaves the others",
        _CLEANING + "kept.py",
        (
            (
                "            own = [e for e in self._entries(location) if e",
                "            own = [e for e in self._entries(location) if e.name or e",
            ),
        ),
        f"{_DISK} -k leaves_the_others",
    ),
    Mutant(
        "undo: it is said to be done only where all of it is in its place",
        _CLEANING + "kept.py",
        (("plan.sizes.keys() - there):", "plan.sizes.keys() - plan.sizes.keys()):"),),
        f"{_DISK} -k half_done",
    ),
    Mutant(
        "hiding: a delta of the very same range without a statement is read as well",
        _HIDES,
        (("return not same or acid.statement is not None", "return True"),),
        f"{_PLAN} -k hides",
    ),
    Mutant(
        "hiding: a base hides nothing above it",
        _HIDES,
        (("        return last <= write_id\n", "        return last <= write_id + 1\n"),),
        f"{_PLAN} -k hides",
    ),
    Mutant(
        "holds: what becomes free while a table is held waits",
        _CLEANING + "gate_decision.py",
        (("        if self.index.is_held:\n            self._hold_back()\n", ""),),
        f"{_GATE} -k free",
    ),
    Mutant(
        "holds: what was deferred is not lost",
        _CLEANING + "gate_people.py",
        (("        turn.commands.append(released_again(piece.event, turn.at, GATE))\n", ""),),
        f"{_GATE} -k met_a_hold",
    ),
    Mutant(
        "holds: the cleaner looks before each round",
        _CLEANING + "executor.py",
        (
            (
                "            if (hold := self.holds.hold_on(command)) is not None:\n",
                "            if (hold := None) is not None:\n",
            ),
        ),
        f"{_LOOKUP} -k round",
    ),
    Mutant(
        "holds: one that is older than the command counts",
        _CLEANING + "hold_lookup.py",
        (("* 1000) - BEFORE_MS)", "* 1000))"),),
        f"{_LOOKUP} -k before",
    ),
    Mutant(
        "holds: what was known before a gap in the topic is forgotten",
        _CLEANING + "hold_lookup.py",
        (("not marks.first <= known[1] <= last:", "last < known[1]:"),),
        f"{_LOOKUP} -k gone_by_retention",
    ),
    Mutant(
        "holds: what a topic of the same name said is forgotten",
        _CLEANING + "hold_lookup.py",
        (("known[2] == marks.topic_id", "True"),),
        f"{_LOOKUP} -k created_again",
    ),
    Mutant(
        "holds: whose signature proves nothing neither holds nor lets go",
        _CLEANING + "hold_lookup.py",
        (
            (
                "        except Unauthorized:\n            return\n",
                "        except Unauthorized:\n            pass\n",
            ),
        ),
        f"{_LOOKUP} -k sign",
    ),
    Mutant(
        "aborted: a table that was created again is not taken for the one that the bridge saw",
        _CLEANING + "aborted.py",
        (("    if remove and content_of(remove) != command.content:", "    if False:"),),
        "tests/cleaning/test_aborted.py -k created_again",
    ),
    Mutant(
        "aborted: write ids are asked for once more after the walk",
        "producers/tidegate/hive_bridge/aborted.py",
        (("    return final.aborted == write_ids.aborted and", "    return True or"),),
        "tests/hive_bridge/test_aborted_recreated.py -k during_the_walk",
    ),
    Mutant(
        "aborted: a new table of a name has a grace time of its own",
        "producers/tidegate/hive_bridge/ages.py",
        (("        del self._seen[key]\n        return True", "        return True"),),
        "tests/hive_bridge/test_aborted_recreated.py -k grace",
    ),
    Mutant(
        "expiry: a hold that ended because it expired is remembered as such",
        _CLEANING + "gate_decision.py",
        (("        if event.reason is ReleaseReason.EXPIRED:\n", "        if False:\n"),),
        f"{_GATE} -k expired",
    ),
    Mutant(
        "quarantine: its removal is asked for until it is gone",
        _CLEANING + "gate_quarantine.py",
        (("due_ms=now_ms + wait, asked", "due_ms=2**62, asked"),),
        f"{_GATE} -k asked_for",
    ),
)
