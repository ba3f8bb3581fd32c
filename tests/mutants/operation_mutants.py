"""The rules of limits, restarts and health checks, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import DECIDERS, EXECUTORS, RUNTIME, Mutant

_LIMIT = "tests/runtime/test_dead_letter_limit.py"
_REGISTRY = "tests/registry/test_registry_headers.py"


def _doctor(rule: str, module: str, old: str, new: str) -> Mutant:
    file = f"consumers/tidegate/ops/doctor/{module}"
    return Mutant(f"doctor: {rule}", file, ((old, new),), "tests/ops/doctor/test_doctor_checks.py")


OPERATION_MUTANTS = (
    _doctor(
        "only so many partitions are in memory as fit",
        "changelogs.py",
        "_BYTES_TOGETHER // max(1, largest)",
        "_TOGETHER",
    ),
    Mutant(
        "dead letters: large ones do not fill the memory",
        "consumers/tidegate/ops/dead_letters/newest.py",
        (("        while size > max_bytes and len(kept) > 1:", "        while False:"),),
        "tests/ops/dead_letters/test_listing.py -k large_letters",
    ),
    Mutant(
        "rule 6: a reason of any length leaves a letter that its topic takes",
        RUNTIME + "input/dead_letters.py",
        (("    message = _truncated(str(error))\n", "    message = str(error)\n"),),
        f"{DECIDERS} -k any_length",
    ),
    Mutant(
        "rule 6: a letter that is too large does not hold up its partition",
        RUNTIME + "input/dead_letters.py",
        (
            (
                "        except MessageTooLargeError:\n            small",
                "        except ZeroDivisionError:\n            small",
            ),
        ),
        f"{DECIDERS} -k too_large",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic, however often an executor is started",
        RUNTIME + "executor/loop.py",
        (("commit(offsets, metadata, wait=wait)", "commit(offsets, wait=wait)"),),
        f"{EXECUTORS} -k restarts",
    ),
    Mutant(
        "rule 6: bad code does not drain a topic, however often a decider is started",
        RUNTIME + "decider/loop.py",
        (("commit(offsets, metadata, wait=wait)", "commit(offsets, wait=wait)"),),
        f"{_LIMIT} -k deciders_events",
    ),
    Mutant(
        "rule 6: the count of dead letters is taken up by who gets the partition",
        RUNTIME + "executor/loop.py",
        (
            (
                "self._dead_letters.limit.restore(partition, history)",
                "pass",
            ),
        ),
        f"{EXECUTORS} -k restarts",
    ),
    Mutant(
        "rule 6: a message that was refused does not count",
        RUNTIME + "input/dead_letters.py",
        (
            (
                "            seen = [*recent, mark][-self.window :]\n",
                """            seen = [*recent, mark][-self.window :]
            recent.append(mark)
""",
            ),
        ),
        f"{_LIMIT} -k refused",
    ),
    Mutant(
        "the metadata of an offset is not lost when the partition changes hands (Kafka)",
        RUNTIME + "kafka/subscription.py",
        (
            (
                "        self._commit(starts)\n",
                "        self.commit({p: each.offset for p, each in self._committed.items()})\n",
            ),
        ),
        "tests/runtime/test_bus_conformance.py -k metadata",
        needs_kafka=True,
    ),
    Mutant(
        "an offset that the broker did not take is committed again (Kafka)",
        RUNTIME + "kafka/subscription.py",
        (("        self._retry_commits()\n", ""),),
        "tests/runtime/test_lost_commit.py",
        needs_kafka=True,
    ),
    Mutant(
        "rule 3: a command whose outcome may be on the broker is looked up again",
        RUNTIME + "executor/command_runner.py",
        (("            attempts.looked_up = False\n", ""),),
        f"{EXECUTORS} -k may_be_on_the_broker",
    ),
    Mutant(
        "what was said of a command is looked up once",
        RUNTIME + "executor/command_runner.py",
        (("        if attempts.looked_up or not self", "        if not self"),),
        f"{EXECUTORS} -k looked_up_once",
    ),
    _doctor(
        "an offset that its topic no longer holds is seen",
        "offsets.py",
        "available.start <= at <= available.stop",
        "at <= available.stop",
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
        "changelogs.py",
        "self.faults.append(str(error))",
        "del error",
    ),
    _doctor(
        "a table whose memory can't be read is seen",
        "changelogs.py",
        "sum(1 for _ in store.tables())",
        "len(store)",
    ),
    Mutant(
        "a service has its own limit of dead letters",
        "consumers/tidegate/service/assembly.py",
        (
            (
                "DeadLetterLimit(window=configured.window, max_failures=configured.max_failures)",
                "DeadLetterLimit()",
            ),
        ),
        "tests/service/settings/test_service_limits.py",
    ),
    Mutant(
        "a service's own limit wins over that of all",
        "consumers/tidegate/service/settings/services.py",
        (("return own.over(", "return (own and "),),
        "tests/service/settings/test_service_limits.py",
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
        "consumers/tidegate/ops/dead_letters/resolution.py",
        (("headers = (*kept, (REDRIVEN_FROM", "headers = ((REDRIVEN_FROM"),),
        f"{_REGISTRY} -k sent_back",
    ),
    Mutant(
        "registry: an event that is replayed keeps what names its schema",
        "consumers/tidegate/ops/replay/events.py",
        (("headers = (*kept, (REPLAYED_FROM", "headers = ((REPLAYED_FROM"),),
        f"{_REGISTRY} -k replayed",
    ),
    Mutant(
        "signal handlers are put back",
        "consumers/tidegate/service/signals.py",
        (("            signal.signal(number, handler)\n", "            pass\n"),),
        "tests/service/test_signals.py",
    ),
    Mutant(
        "a replica that lacks confirmed records may lead no topic",
        "schemas/tidegate/events/topics.py",
        ((', UNCLEAN: "false"}', "}"),),
        "tests/ops/topics/test_topic_differences.py -k confirmed_records",
    ),
    Mutant(
        "dead letters are redriven batch by batch",
        "consumers/tidegate/ops/dead_letters/batches.py",
        (("len(batch) == MAX_LETTERS or ", ""),),
        "tests/ops/dead_letters/test_batches.py",
    ),
    Mutant(
        "an outcome in parts answers with its last part",
        "schemas/tidegate/events/parts.py",
        (("        if len(found) < (outcome.parts or 0):\n            return None\n", ""),),
        "tests/events/test_parts.py tests/ops/event_log/test_joining.py",
    ),
    Mutant(
        "a part that does not follow those before it makes no outcome whole",
        "schemas/tidegate/events/parts.py",
        (("same and outcome.part == len(before) + 1", "same"),),
        "tests/events/test_parts.py",
    ),
)
