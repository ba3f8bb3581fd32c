"""The rules of a decider's writes, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import BUSES, DECIDERS, RUNTIME, Mutant

_CATCHES_UP = "tests/cleaning/test_gate_catches_up.py"
_LARGE = "tests/runtime/test_large_commands.py"
KEPT = "tests/runtime/test_kept_state.py"
_OWNED = RUNTIME + "decider/owned_partitions.py"

DECIDER_MUTANTS = (
    Mutant(
        "rule 2: a write that is tried again has the tables, not only the positions",
        _OWNED,
        (
            (
                "self._changelog.write(records))",
                """self._changelog.write(
            {n: each.store.changed_records() for n, each in changed.items()}))""",
            ),
        ),
        f"{DECIDERS} -k tried_again",
    ),
    Mutant(
        "rule 4: what was lost with work pending is not kept",
        _OWNED,
        (
            (
                "        self._owned.clear()\n        self._released.clear()\n",
                """        self._released = {n: each.store for n, each in self._owned.items()}
        self._owned.clear()
""",
            ),
        ),
        f"{KEPT} -k lost",
    ),
    Mutant(
        "rule 1: state made for another number of partitions is refused",
        RUNTIME + "decider/state_store.py",
        (("        if self.partitions != count:\n", "        if not count:\n"),),
        f"{DECIDERS} -k number_of_partitions",
    ),
    Mutant(
        "rule 3: a table's main record comes after its pieces",
        RUNTIME + "decider/state_store.py",
        (
            ("            written += self._changed_pieces(table, loaded)\n", ""),
            (
                "            written.append((table.encode(), value))\n",
                """            written.append((table.encode(), value))
            written += self._changed_pieces(table, loaded)
""",
            ),
        ),
        f"{DECIDERS} -k between_the_pieces",
    ),
    Mutant(
        "rule 6: a command that its topic refuses makes its event a dead letter",
        RUNTIME + "decider/loop.py",
        (
            (
                '        if all(len(each.value or b"") <=',
                '        if all(len(each.value or b"") >= 0 <=',
            ),
        ),
        f"{_LARGE} -k event_of_a_command",
    ),
    Mutant(
        "rule 6: commands keep their order around a large one",
        RUNTIME + "decider/loop.py",
        (("        self._publish(pending.messages)\n        pending.messages = []\n", ""),),
        f"{_LARGE} -k order",
    ),
    Mutant(
        "rule 6: a broker that is away makes no dead letter of an event",
        RUNTIME + "decider/loop.py",
        (
            (
                "if isinstance(error, StopService) or is_broker_fault(error):",
                "if isinstance(error, StopService):",
            ),
        ),
        f"{_LARGE} -k delivered",
    ),
    Mutant(
        "a piece that was removed is not there, though it was put not long ago",
        RUNTIME + "decider/state_store.py",
        (("                recent.pop(name, None)\n", ""),),
        "tests/cleaning/test_recent_pieces.py",
    ),
    Mutant(
        "pieces that are kept as they were put are bounded",
        RUNTIME + "decider/pieces.py",
        (("        if self._bytes > self.limit:\n", "        if not self._bytes:\n"),),
        "tests/cleaning/test_recent_pieces.py",
    ),
    Mutant(
        "a piece that was put again is not the one from before",
        RUNTIME + "decider/pieces.py",
        (("        kept[name] = piece\n", "        kept.setdefault(name, piece)\n"),),
        "tests/cleaning/test_recent_pieces.py",
    ),
    Mutant(
        "what is kept as it was put is bounded as objects, not as text",
        RUNTIME + "decider/pieces.py",
        ((' + _VALUE_BYTES * record.count(b",")', ""),),
        "tests/cleaning/test_recent_pieces.py",
    ),
    Mutant(
        "a piece whose record is packed is not kept beside it, nor the one from before",
        RUNTIME + "decider/pieces.py",
        (("            kept.pop(name, None)\n", ""),),
        "tests/cleaning/test_recent_pieces.py",
    ),
    Mutant(
        "no record of a changelog is larger than a megabyte",
        RUNTIME + "decider/pieces.py",
        (("(piece))) > MAX_RECORD_BYTES", "(piece))) > 2 * MAX_RECORD_BYTES"),),
        f"{_LARGE} -k record_above",
    ),
    Mutant(
        "a partition that another process has written to is not kept",
        RUNTIME + "memory/bus.py",
        (
            (
                "changed = number not in known or len(records) != self._ends.get(number)",
                "changed = number not in known",
            ),
        ),
        f"{KEPT} -k written_to",
    ),
    Mutant(
        "a partition that comes back is not read again",
        _OWNED,
        (
            (
                "self._changelog.acquire(numbers, known=kept.keys())",
                "self._changelog.acquire(numbers)",
            ),
        ),
        f"{KEPT} -k moved",
    ),
    Mutant(
        "a partition of a Kafka changelog that another has written to is read whole",
        RUNTIME + "kafka/changelog.py",
        (("if changed := seen.numbers & known:", "if changed := set[int]():"),),
        f"{BUSES} -k comes_back",
        needs_kafka=True,
    ),
    Mutant(
        "rule 4: who was killed while it signed is found and fenced",
        RUNTIME + "kafka/changelog.py",
        (("        if not starts:\n", "        if starts is not None:\n"),),
        "tests/runtime/test_kafka_changelog.py -k signed",
        needs_kafka=True,
    ),
    Mutant(
        "rule 4: a signature stands behind all that those have written whom it fences",
        RUNTIME + "kafka/changelog.py",
        (("            if signed.last_other > offset:", "            if offset < 0:"),),
        "tests/runtime/test_kafka_changelog.py -k comes_back",
        needs_kafka=True,
    ),
    Mutant(
        "what was read anew is not kept when reading is tried again",
        _OWNED,
        (("                    self._released.pop(number, None)", "                    pass"),),
        f"{KEPT} -k fault_after",
    ),
    Mutant(
        "rule 4: an owner of an earlier version is fenced",
        RUNTIME + "kafka/changelog.py",
        (
            (
                "for number in written if number not in earlier}",
                "for number in written if number is None}",
            ),
        ),
        "tests/runtime/test_kafka_changelog.py -k version",
        needs_kafka=True,
    ),
    Mutant(
        "gate: after a start, vacuums are read before the releases of the backlog",
        RUNTIME + "decider/catch_up.py",
        (("            subscription.pause(self._to_pause)\n", ""),),
        f"{_CATCHES_UP} -k meets",
    ),
    Mutant(
        "gate: the other inputs go on once the vacuums have caught up",
        RUNTIME + "decider/catch_up.py",
        (("            subscription.resume(ready)\n", ""),),
        f"{_CATCHES_UP} -k go_on",
    ),
    Mutant(
        "gate: an end without a record does not hold up the other inputs",
        RUNTIME + "decider/catch_up.py",
        (("            if is_idle or read", "            if read"),),
        f"{_CATCHES_UP} -k no_record",
    ),
)
