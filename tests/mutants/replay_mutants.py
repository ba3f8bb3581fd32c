"""The replay's rules, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_REPLAY = "consumers/tidegate/replay/"
REPLAYS = (
    "tests/replay/test_replay_plan.py tests/replay/test_replay_of_tables.py"
    " tests/replay/test_replay_upon_replay.py"
)
GATE_REPLAY = "tests/replay/test_replay_of_a_gate.py"


def _replay(rule: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(f"replay: {rule}", f"{_REPLAY}{file}", ((old, new),), REPLAYS)


REPLAY_MUTANTS = (
    _replay(
        "a group only goes back: no record is passed over",
        "plan.py",
        "to = min(_within(held, each) for each in (wanted, *places))",
        "to = _within(held, wanted)",
    ),
    _replay(
        "offsets of a topic that is gone say nothing of the one that was created again",
        "plan.py",
        "    if standing.is_renewed:  #",
        "    if not held:  #",
    ),
    _replay(
        "a decider whose group stands at the first offset forgets with it",
        "plan.py",
        "if not standing.fault and wanted >= max(standing.reached):",
        "if not standing.fault and wanted >= places[0]:",
    ),
    _replay(
        "a table that an earlier replay left where it was is read again when it is meant",
        "memory.py",
        "furthest[topic] = max(furthest.get(topic, 0), at)",
        "furthest[topic] = 0",
    ),
    _replay(
        "what other tables were left with moves nothing",
        "memory.py",
        "if tables is None or each[0] in meant)",
        "if True)",
    ),
    _replay(
        "a table ahead of its partition is not there yet",
        "plan.py",
        "(standing.committed, *standing.reached)):",
        "(standing.committed, *places)):",
    ),
    _replay(
        "a memory that ends before the group is a fault",
        "plan.py",
        "min(self.places) < self.committed:",
        "min(self.places) < 0:",
    ),
    _replay(
        "the positions of a decider go back with its group",
        "memory.py",
        "**{m.partition.topic: m.to_offset for m in moves}",
        "**{}",
    ),
    _replay(
        "a replay for one table decides nothing of the others anew",
        "memory.py",
        "applied[topic] = max(applied.get(topic, 0), positions[topic])",
        "pass",
    ),
    Mutant(
        "replay: nor of what was forgotten of them",
        f"{_REPLAY}memory.py",
        (("if tables is None or table in tables or move.is_for_all:", "if True:"),),
        GATE_REPLAY,
    ),
    _replay(
        "nor of those of which nothing was remembered",
        "memory.py",
        "    for table in sorted(others):",
        "    for table in ():",
    ),
    _replay(
        "the table that is meant hears its events again",
        "memory.py",
        "if tables is None or table in tables or move.is_for_all:",
        "if tables is None or move.is_for_all:",
    ),
    _replay(
        "no table's old offsets count on a topic that was created again",
        "memory.py",
        "table in tables or move.is_for_all:",
        "table in tables:",
    ),
    _replay(
        "a memory that went on since the plan is left alone",
        "memory.py",
        "            _check_unchanged(ledger, moves)\n",
        "",
    ),
    _replay(
        "a topic is accepted only after the positions on it are written",
        "memory.py",
        "    return [*written, *((key, json.dumps(value).encode()) for key, value in tail)]",
        "    return [*((k, json.dumps(v).encode()) for k, v in tail[::-1]), *written]",
    ),
    _replay(
        "a table lies where Kafka's partitioner puts it",
        "keys.py",
        "(mixed ^ mixed >> 13) *",
        "(mixed ^ mixed >> 14) *",
    ),
    _replay(
        "partitions with nothing of the tables stay where they are",
        "tables.py",
        "return bool(move.fault or (move.share and move.share.of_tables))",
        "return bool(move.fault or move.share)",
    ),
    _replay(
        "a time before Kafka's first is not the end of the topic",
        "targets.py",
        "    return max(read, _BEGINNING)\n",
        "    return read\n",
    ),
    _replay(
        "what can't be read is told of",
        "events.py",
        "                unreadable.append(Unreadable(record, str(error)))\n",
        "                pass\n",
    ),
    _replay(
        "events of one batch keep their order",
        "events.py",
        "    ordered = sorted(found.values(), key=_order)",
        "    ordered = sorted(found.values(), key=lambda e: (e.record.timestamp_ms, e.origin))",
    ),
)
