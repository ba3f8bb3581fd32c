"""The rules that must not break, each with a way to break it and the tests that then go red.

A mutant replaces text in one file; the tests named are run on a copy of the tree. Whoever changes
such a line finds here what it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

RUNTIME = "consumers/tidegate/runtime/"
DECIDERS = "tests/runtime/test_decider_loop.py"
EXECUTORS = "tests/runtime/test_executor_loop.py"
BUSES = "tests/runtime/test_bus_conformance.py"


@dataclass(frozen=True)
class Mutant:
    """A rule, the file and the edits that break it, and the tests that must see it."""

    rule: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: str
    needs_kafka: bool = False


MUTANTS = (
    Mutant(
        "rule 1: restore first, then live",
        RUNTIME + "holdings.py",
        (("        ledger.restore(memory.read())\n", ""),),
        f"{DECIDERS} -k rule_1",
    ),
    Mutant(
        "rule 1: topics that are not co-partitioned are refused",
        RUNTIME + "decider_loop.py",
        (("        copartitioned(\n            bus, ", "        list(\n            "),),
        f"{DECIDERS} -k rule_1",
    ),
    Mutant(
        "rule 1: a changelog that was lost is noticed",
        RUNTIME + "ledger.py",
        (("        if start is not None and start > at:\n", "        if False:\n"),),
        f"{DECIDERS} -k lost",
    ),
    Mutant(
        "rule 2: commands before the changelog",
        RUNTIME + "decider_loop.py",
        (
            ("        self._patience.call(lambda: self._say(commands))\n", ""),
            (
                "        self._subscription.commit(done",
                "        self._say(commands)\n        self._subscription.commit(done",
            ),
        ),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 2: the changelog before the offset",
        RUNTIME + "decider_loop.py",
        (
            ("        self._held.remember(begun)\n", ""),
            (
                "            held.commands, held.positions = [], {}\n",
                """            self._held.remember([held])
            held.commands, held.positions = [], {}
""",
            ),
        ),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 2: what was begun is finished before the partition goes",
        RUNTIME + "decider_loop.py",
        (("        self._finish(wait=True)\n", ""),),
        f"{DECIDERS} -k rule_2",
    ),
    Mutant(
        "rule 4: what was begun on a lost partition is forgotten with it",
        RUNTIME + "decider_loop.py",
        (("        self._held.forget({each.number for each in partitions})\n", ""),),
        f"{DECIDERS} -k rule_4",
    ),
    Mutant(
        "rule 2: after a fault nothing unsaid is remembered",
        RUNTIME + "decider_loop.py",
        (("            self._held.forget()  # nothing", "            # nothing"),),
        f"{DECIDERS} -k rule_2",
    ),
    Mutant(
        "rule 3: an id is derived from its cause",
        "schemas/tidegate/events/identity.py",
        (("    return str(uuid.uuid5(", "    return str(uuid.uuid4()) or str(uuid.uuid5("),),
        f"{DECIDERS} -k rule_3",
    ),
    Mutant(
        "rule 3: an event that was applied is not applied again",
        RUNTIME + "ledger.py",
        (("        return self.positions.get(topic, 0)\n", "        return 0\n"),),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 3: a table's own positions cover it until the partition's are written",
        RUNTIME + "ledger.py",
        (("Entry(applied, ", "Entry({}, "),),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 3: a table's own positions outlive its next change",
        RUNTIME + "ledger.py",
        (("        if self._passes(own):\n", "        if False:\n"),),
        "tests/runtime/test_ledger.py",
    ),
    Mutant(
        "rule 3: positions are written after the tables",
        RUNTIME + "ledger.py",
        (
            (
                "[*written, (POSITIONS_KEY, _POSITIONS.dump_json(self.positions)), *removed]",
                "[(POSITIONS_KEY, _POSITIONS.dump_json(self.positions)), *written, *removed]",
            ),
        ),
        DECIDERS,
    ),
    Mutant(
        "rule 3: a command with its final outcome is not carried out again",
        RUNTIME + "execution.py",
        (("        if known or not self.executor.looks_back:", "        if self.executor:"),),
        f"{EXECUTORS} -k final",
    ),
    Mutant(
        "rule 4: who takes a changelog shuts out its earlier holder (Kafka)",
        RUNTIME + "kafka_changelog.py",
        (
            (
                '"transactional.id": f"{topic}-{partition}"',
                '"transactional.id": f"{topic}-{partition}-{id(self)}"',
            ),
        ),
        f"{BUSES} -k shuts_out",
        needs_kafka=True,
    ),
    Mutant(
        "rule 5: the loop goes on while tasks run",
        RUNTIME + "executor_loop.py",
        (
            (
                "self._lanes.put(command.table, _Task(record, command, progress))",
                "self._carry_out(_Task(record, command, progress))",
            ),
        ),
        f"{EXECUTORS} -k side_by_side",
    ),
    Mutant(
        "rule 5: tasks of one table run in order",
        RUNTIME + "executor_loop.py",
        (("self._lanes.put(command.table, _Task", "self._lanes.put(command.event_id, _Task"),),
        f"{EXECUTORS} -k side_by_side",
    ),
    Mutant(
        "rule 6: poison is kept, not swallowed",
        RUNTIME + "intake.py",
        (("        self.patience.call(lambda: self.bus.send([letter]))\n", ""),),
        f"{DECIDERS} {EXECUTORS} -k poison",
    ),
    Mutant(
        "rule 6: an event on a wrong topic is not skipped",
        RUNTIME + "intake.py",
        (("        if record.partition.topic != expected:\n", "        if False:\n"),),
        f"{DECIDERS} -k wrong_topic",
    ),
    Mutant(
        "rule 6: a transient fault is tried again",
        RUNTIME + "patience.py",
        (
            (
                "    may_pass = isinstance(error, TransientError",
                "    may_pass = isinstance(error, SystemExit",
            ),
        ),
        f"{EXECUTORS} -k transient",
    ),
    Mutant(
        "rule 6: a permanent fault is not tried again",
        RUNTIME + "patience.py",
        (
            (
                "    may_pass = isinstance(error, TransientError",
                "    may_pass = isinstance(error, Exception",
            ),
        ),
        f"{EXECUTORS} -k set_aside",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic",
        RUNTIME + "dead_letters.py",
        (("(failed := seen.count(_FAILED)) > self.most", "(failed := 0) > self.most"),),
        f"{DECIDERS} {EXECUTORS} -k bad_code",
    ),
    Mutant(
        "rule 7: offsets never jump (Kafka)",
        RUNTIME + "kafka_subscription.py",
        (("        if not low <= committed.offset <= high:", "        if low > high:"),),
        f"{BUSES} -k no_jump",
        needs_kafka=True,
    ),
    Mutant(
        "rule 7: offsets mean nothing on a topic that was created again",
        RUNTIME + "ledger.py",
        (
            (
                "if self.topic_ids.setdefault(topic, extent.topic_id) != extent.topic_id:",
                "if not self.topic_ids.setdefault(topic, extent.topic_id):",
            ),
        ),
        f"{DECIDERS} -k rule_7",
    ),
    Mutant(
        "rule 7: a gap behind a decider's own memory is seen",
        RUNTIME + "ledger.py",
        (("        if not extent.first <= at <= extent.end:", "        if at > extent.end:"),),
        f"{DECIDERS} -k rule_7",
    ),
    Mutant(
        "who is not listed has nothing restored",
        "consumers/tidegate/restores/permission.py",
        (("if isinstance(command, RestoreRequested) and not self._may(command):", "if False:"),),
        "tests/security/test_who_may_restore.py",
    ),
    Mutant(
        "secrets of the settings are in no text",
        "consumers/tidegate/settings/__init__.py",
        (("name: SecretStr(value) if isinstance", "name: value if isinstance"),),
        "tests/security/test_secrets.py",
    ),
    Mutant(
        "an executor acknowledges nothing before its outcome is on the broker",
        RUNTIME + "executor_loop.py",
        (
            (
                "            self._lanes.put(command.table",
                """            progress.finish(record.offset)
            self._lanes.put(command.table""",
            ),
        ),
        f"{EXECUTORS} -k nothing_is_acknowledged",
    ),
    Mutant(
        "offsets are acknowledged behind the last that is still open",
        RUNTIME + "progress.py",
        (("            if not self._open[each]:\n                return\n", ""),),
        EXECUTORS,
    ),
    Mutant(
        "who lost a partition acknowledges nothing of it",
        RUNTIME + "executor_loop.py",
        (("            self._progress.pop(partition, None)\n", "            pass\n"),),
        f"{EXECUTORS} -k lost",
    ),
)
