"""The rules of limits, restarts and health checks, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import DECIDERS, EXECUTORS, RUNTIME, Mutant

_LIMIT = "tests/runtime/test_dead_letter_limit.py"
_REGISTRY = "tests/registry/test_registry_headers.py"


def _doctor(rule: str, module: str, old: str, new: str) -> Mutant:
    file = f"consumers/tidegate/doctor/{module}"
    return Mutant(f"doctor: {rule}", file, ((old, new),), "tests/doctor/test_doctor_checks.py")


OPERATION_MUTANTS = (
    Mutant(
        "rule 6: a reason of any length leaves a letter that its topic takes",
        RUNTIME + "dead_letters.py",
        (("    message = _cut(str(error))\n", "    message = str(error)\n"),),
        f"{DECIDERS} -k any_length",
    ),
    Mutant(
        "rule 6: a letter that is too large does not hold up its partition",
        RUNTIME + "intake.py",
        (("        except MessageTooLargeError:\n", "        except ZeroDivisionError:\n"),),
        f"{DECIDERS} -k too_large",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic, however often an executor is started",
        RUNTIME + "executor_loop.py",
        (("commit(moved, notes, wait=wait)", "commit(moved, wait=wait)"),),
        f"{EXECUTORS} -k restarts",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic, however often a decider is started",
        RUNTIME + "decider_loop.py",
        (("commit(done, notes, wait=wait)", "commit(done, wait=wait)"),),
        f"{_LIMIT} -k deciders_events",
    ),
    Mutant(
        "rule 6: the count of dead letters is taken up by who gets the partition",
        RUNTIME + "executor_loop.py",
        (
            (
                "self._intake.limit.recall(partition, self._subscription.noted(partition))",
                "pass",
            ),
        ),
        f"{EXECUTORS} -k restarts",
    ),
    Mutant(
        "rule 6: a message that was refused does not count",
        RUNTIME + "dead_letters.py",
        (
            (
                "            seen = [*recent, _FAILED][-self.window :]\n",
                """            seen = [*recent, _FAILED][-self.window :]
            recent.append(_FAILED)
""",
            ),
        ),
        f"{_LIMIT} -k refused",
    ),
    Mutant(
        "the note of an offset is not lost when the partition changes hands (Kafka)",
        RUNTIME + "kafka_subscription.py",
        (
            (
                "        self._commit(starts)\n",
                "        self.commit({part: each.offset for part, each in self._told.items()})\n",
            ),
        ),
        "tests/runtime/test_bus_conformance.py -k note",
        needs_kafka=True,
    ),
    Mutant(
        "an offset that the broker did not take is told again (Kafka)",
        RUNTIME + "kafka_subscription.py",
        (("        self._tell_again()\n", ""),),
        "tests/runtime/test_lost_commit.py",
        needs_kafka=True,
    ),
    Mutant(
        "rule 3: a command whose outcome may be on the broker is looked up again",
        RUNTIME + "execution.py",
        (("                known = False\n", ""),),
        f"{EXECUTORS} -k may_be_on_the_broker",
    ),
    Mutant(
        "rule 3: a command that another process had meanwhile is looked up again",
        RUNTIME + "execution.py",
        (("known=known and still_ours()", "known=known"),),
        f"{EXECUTORS} -k another_process",
    ),
    Mutant(
        "what was said of a command is looked up once",
        RUNTIME + "execution.py",
        (("        if known or not self", "        if not self"),),
        f"{EXECUTORS} -k looked_up_once",
    ),
    _doctor(
        "an offset that its topic no longer holds is seen",
        "offsets.py",
        "held.start <= at <= held.stop",
        "at <= held.stop",
    ),
    _doctor(
        "topics that do not lie together are seen",
        "broker.py",
        "if len({partitions[name] for name in names}) > 1",
        "if not names",
    ),
    _doctor(
        "a right that is lacking is seen",
        "access.py",
        "if each.operation not in allowed",
        "if each.operation and not allowed",
    ),
    _doctor(
        "offsets that the broker forgets too early are seen",
        "retention.py",
        "if minutes >= needed[longest]",
        "if minutes >= min(needed.values())",
    ),
    _doctor(
        "a memory that does not fit its topics is seen",
        "memory.py",
        "self.faults.append(str(error))",
        "del error",
    ),
    _doctor(
        "a table whose memory can't be read is seen",
        "memory.py",
        "sum(1 for _ in ledger.entries_kept())",
        "len(ledger)",
    ),
    Mutant(
        "a service has its own limit of dead letters",
        "consumers/tidegate/services/assembly.py",
        (("DeadLetterLimit(window=told.of, most=told.most)", "DeadLetterLimit()"),),
        "tests/settings/test_service_limits.py",
    ),
    Mutant(
        "a service's own limit wins over that of all",
        "consumers/tidegate/settings/services.py",
        (("return own.over(", "return (own and "),),
        "tests/settings/test_service_limits.py",
    ),
    Mutant(
        "registry: a GUID never stands before the body",
        "producers/tidegate/registry/schemas.py",
        (("if self.in_headers and schema.guid:", "if schema.guid:"),),
        f"{_REGISTRY} -k before_the_body",
    ),
    Mutant(
        "registry: a body alone travels with what names its schema",
        "schemas/tidegate/events/wire.py",
        (("(*headers, (VALUE_HEADER, prefix))", "headers"),),
        f"{_REGISTRY} -k deciders_and_executors",
    ),
    Mutant(
        "registry: a letter that is sent back keeps what names its schema",
        "consumers/tidegate/deadletters/settling.py",
        (("headers = (*kept, (REDRIVEN_FROM", "headers = ((REDRIVEN_FROM"),),
        f"{_REGISTRY} -k sent_back",
    ),
    Mutant(
        "registry: an event that is replayed keeps what names its schema",
        "consumers/tidegate/replay/events.py",
        (("headers = (*kept, (REPLAYED_FROM", "headers = ((REPLAYED_FROM"),),
        f"{_REGISTRY} -k replayed",
    ),
    Mutant(
        "signal handlers are put back",
        RUNTIME + "signals.py",
        (("            signal.signal(number, handler)\n", "            pass\n"),),
        "tests/runtime/test_signals.py",
    ),
)
