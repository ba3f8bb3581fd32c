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
        RUNTIME + "decider/owned_partitions.py",
        (("                read[number].restore(records)\n", ""),),
        f"{DECIDERS} -k rule_1",
    ),
    Mutant(
        "rule 1: topics that are not co-partitioned are refused",
        RUNTIME + "decider/loop.py",
        (("require_copartitioned(bus, topics)", "bus.partitions(topics[0])"),),
        f"{DECIDERS} -k rule_1",
    ),
    Mutant(
        "rule 1: a changelog that was lost is noticed",
        RUNTIME + "decider/state_store.py",
        (("        if start is not None and start > at:\n", "        if False:\n"),),
        f"{DECIDERS} -k lost",
    ),
    Mutant(
        "rule 2: commands before the changelog",
        RUNTIME + "decider/loop.py",
        (
            (
                "self._publish([message for each in pending for message in each.messages])",
                "pass",
            ),
            (
                "        self._subscription.commit(offsets",
                """        self._publish([each for p in pending for each in p.messages])
        self._subscription.commit(offsets""",
            ),
        ),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 2: the changelog before the offset",
        RUNTIME + "decider/loop.py",
        (
            ("        self._owned.write(begun)\n", ""),
            (
                "        for each in pending:\n            each.clear()\n",
                """        self._owned.write(begun)
        for each in pending:
            each.clear()
""",
            ),
        ),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 2: what was begun is finished before the partition goes",
        RUNTIME + "decider/loop.py",
        (("        self._finish(wait=True)\n", ""),),
        f"{DECIDERS} -k rule_2",
    ),
    Mutant(
        "rule 4: what was begun on a lost partition is forgotten with it",
        RUNTIME + "decider/loop.py",
        (('work on them."""\n        self._owned.drop()\n', 'work on them."""\n'),),
        f"{DECIDERS} -k rule_4",
    ),
    Mutant(
        "rule 2: after a fault nothing unpublished is written",
        RUNTIME + "decider/loop.py",
        (("            self._owned.drop()  # inv", "            # inv"),),
        f"{DECIDERS} -k rule_2",
    ),
    Mutant(
        "rule 3: an id is derived from its cause",
        "schemas/tidegate/events/identity.py",
        (("    variant = _VARIANT", "    name = uuid.uuid4().hex\n    variant = _VARIANT"),),
        f"{DECIDERS} -k rule_3",
    ),
    Mutant(
        "rule 3: an event that was applied is not applied again",
        RUNTIME + "decider/state_store.py",
        (("        return self.positions.get(topic, 0)\n", "        return 0\n"),),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 3: a table's own positions cover it until the partition's are written",
        RUNTIME + "decider/state_store.py",
        (("StateRecord(applied, ", "StateRecord({}, "),),
        f"{DECIDERS} -k rule",
    ),
    Mutant(
        "rule 3: a table's own positions outlive its next change",
        RUNTIME + "decider/state_store.py",
        (("        if self._is_ahead(own):\n", "        if False:\n"),),
        "tests/runtime/test_state_store.py",
    ),
    Mutant(
        "rule 3: positions are written after the tables",
        RUNTIME + "decider/state_store.py",
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
        RUNTIME + "executor/command_runner.py",
        (
            (
                "        if attempts.looked_up or not self.executor.checks_past_outcomes:",
                "        if self.executor:",
            ),
        ),
        f"{EXECUTORS} -k final",
    ),
    Mutant(
        "rule 4: who takes a changelog shuts out its earlier holder (Kafka)",
        RUNTIME + "kafka/changelog.py",
        (
            (
                "        fence(self._config, sorted(ids))\n",
                "",
            ),
        ),
        f"{BUSES} -k shuts_out",
        needs_kafka=True,
    ),
    Mutant(
        "rule 5: the loop goes on while tasks run",
        RUNTIME + "executor/loop.py",
        (
            (
                "self._tasks.put(command.table, task)",
                "self._run_task(task)",
            ),
        ),
        f"{EXECUTORS} -k side_by_side",
    ),
    Mutant(
        "rule 5: tasks of one table run in order",
        RUNTIME + "executor/loop.py",
        (
            (
                "self._tasks.put(command.table, ",
                "self._tasks.put(command.event_id, ",
            ),
        ),
        f"{EXECUTORS} -k side_by_side",
    ),
    Mutant(
        "rule 6: poison is kept, not swallowed",
        RUNTIME + "input/dead_letters.py",
        (
            (
                "            self.retries.call(lambda: self.bus.send([letter]))\n",
                "            pass\n",
            ),
        ),
        f"{DECIDERS} {EXECUTORS} -k poison",
    ),
    Mutant(
        "rule 6: an event on a wrong topic is not skipped",
        RUNTIME + "input/decoder.py",
        (("        if record.partition.topic != expected:\n", "        if False:\n"),),
        f"{DECIDERS} -k wrong_topic",
    ),
    Mutant(
        "rule 6: a transient fault is tried again",
        RUNTIME + "retry.py",
        (
            (
                "    if isinstance(error, TransientError | DeliveryError):",
                "    if isinstance(error, DeliveryError):",
            ),
        ),
        f"{EXECUTORS} -k transient",
    ),
    Mutant(
        "rule 6: a permanent fault is not tried again",
        RUNTIME + "retry.py",
        (
            (
                "    if isinstance(error, TransientError | DeliveryError):",
                "    if isinstance(error, Exception):",
            ),
        ),
        f"{EXECUTORS} -k set_aside",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic",
        RUNTIME + "input/dead_letters.py",
        (
            (
                "(failed := _counted(seen)) > self.max_failures",
                "(failed := 0) > self.max_failures",
            ),
        ),
        f"{DECIDERS} {EXECUTORS} -k bad_code",
    ),
    Mutant(
        "rule 6: invalid messages of one table stop no service for the others",
        RUNTIME + "input/dead_letters.py",
        (("min(marks[each], MAX_OF_A_KEY)", "marks[each]"),),
        "tests/runtime/test_dead_letter_limit.py -k one_table",
    ),
    Mutant(
        "rule 7: offsets never jump (Kafka)",
        RUNTIME + "kafka/subscription.py",
        (
            (
                "        if not marks.first <= committed.offset <= marks.end:",
                "        if not marks:",
            ),
        ),
        f"{BUSES} -k no_jump",
        needs_kafka=True,
    ),
    Mutant(
        "rule 7: offsets mean nothing on a topic that was created again",
        RUNTIME + "decider/state_store.py",
        (
            (
                "if self.topic_ids.setdefault(topic, watermarks.topic_id) != watermarks.topic_id:",
                "if not self.topic_ids.setdefault(topic, watermarks.topic_id):",
            ),
        ),
        f"{DECIDERS} -k rule_7",
    ),
    Mutant(
        "rule 7: a gap behind a decider's own memory is seen",
        RUNTIME + "decider/state_store.py",
        (
            (
                "        if not watermarks.first <= at <= watermarks.end:",
                "        if at > watermarks.end:",
            ),
        ),
        f"{DECIDERS} -k rule_7",
    ),
    Mutant(
        "who is not listed has nothing restored",
        "consumers/tidegate/authorization/authorizer.py",
        (("if isinstance(command, RestoreRequested) and not command.plan_only:", "if False:"),),
        "tests/security/test_who_may_restore.py",
    ),
    Mutant(
        "secrets of the settings are in no text",
        "consumers/tidegate/service/settings/__init__.py",
        (("name: SecretStr(value) if isinstance", "name: value if isinstance"),),
        "tests/security/test_secrets.py",
    ),
    Mutant(
        "an executor acknowledges nothing before its outcome is on the broker",
        RUNTIME + "executor/loop.py",
        (
            (
                "        self._tasks.put(command.table",
                """        offsets.finish(record.offset)
        self._tasks.put(command.table""",
            ),
        ),
        f"{EXECUTORS} -k nothing_is_acknowledged",
    ),
    Mutant(
        "offsets are acknowledged behind the last that is still open",
        RUNTIME + "executor/offset_tracker.py",
        (("next(iter(self._pending), self._end)", "self._end"),),
        EXECUTORS,
    ),
    Mutant(
        "who lost a partition acknowledges nothing of it",
        RUNTIME + "executor/loop.py",
        (("self._offsets.pop(each) for each in partitions", "each for each in ()"),),
        f"{EXECUTORS} -k lost",
    ),
)
