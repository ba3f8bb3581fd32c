"""The replay's rules, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_REPLAY = "consumers/tidegate/ops/replay/"
REPLAYS = (
    "tests/ops/replay/test_replay_plan.py tests/ops/replay/test_replay_of_tables.py"
    " tests/ops/replay/test_replay_upon_replay.py"
)


def _replay(rule: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(f"replay: {rule}", f"{_REPLAY}{file}", ((old, new),), REPLAYS)


REPLAY_MUTANTS = (
    _replay(
        "a group only goes back: no record is passed over",
        "plan.py",
        "to = min(_within(available, each) for each in (wanted, *offsets))",
        "to = _within(available, wanted)",
    ),
    _replay(
        "offsets of a topic that is gone say nothing of the one that was created again",
        "plan.py",
        "    if position.topic_recreated:  #",
        "    if not available:  #",
    ),
    _replay(
        "a decider whose group stands at the first offset forgets with it",
        "plan.py",
        "if not position.fault and wanted >= max(position.next_offsets_with_tables):",
        "if not position.fault and wanted >= offsets[0]:",
    ),
    _replay(
        "a table that an earlier replay left where it was is read again when it is meant",
        "changelogs.py",
        "furthest[topic] = max(furthest.get(topic, 0), at)",
        "furthest[topic] = 0",
    ),
    _replay(
        "what other tables were left with resets nothing",
        "changelogs.py",
        "if tables is None or each[0] in wanted)",
        "if True)",
    ),
    _replay(
        "a table ahead of its partition is not there yet",
        "plan.py",
        "(position.committed, *position.next_offsets_with_tables)",
        "(position.committed, *offsets)",
    ),
    _replay(
        "a memory that ends before the group is a fault",
        "plan.py",
        "min(at) < self.committed:",
        "min(at) < 0:",
    ),
    _replay(
        "the positions of a decider go back with its group",
        "changelogs.py",
        "**{r.partition.topic: r.to_offset for r in resets}",
        "**{}",
    ),
    _replay(
        "a replay for one table decides nothing of the others anew",
        "changelogs.py",
        "applied[topic] = max(applied.get(topic, 0), positions[topic])",
        "pass",
    ),
    _replay(
        "nor of those of which nothing was remembered",
        "changelogs.py",
        "    for table in sorted(others):",
        "    for table in ():",
    ),
    _replay(
        "the table that is meant hears its events again",
        "changelogs.py",
        "if tables is None or table in tables or reset.is_for_all:",
        "if tables is None or reset.is_for_all:",
    ),
    _replay(
        "no table's old offsets count on a topic that was created again",
        "changelogs.py",
        "table in tables or reset.is_for_all:",
        "table in tables:",
    ),
    _replay(
        "a memory that went on since the plan is left alone",
        "changelogs.py",
        "            _check_unchanged(store, resets)\n",
        "",
    ),
    _replay(
        "a topic is accepted only after the positions on it are written",
        "changelogs.py",
        "    return [*written, *((key, json.dumps(value).encode()) for key, value in tail)]",
        "    return [*((k, json.dumps(v).encode()) for k, v in tail[::-1]), *written]",
    ),
    Mutant(
        "replay: a table is where Kafka's partitioner puts it",
        "schemas/tidegate/events/keys.py",
        (("(mixed ^ mixed >> 13) *", "(mixed ^ mixed >> 14) *"),),
        REPLAYS,
    ),
    _replay(
        "partitions with nothing of the tables stay where they are",
        "tables.py",
        "return bool(reset.fault or (reset.counts and reset.counts.by_table))",
        "return bool(reset.fault or reset.counts)",
    ),
    _replay(
        "a time before Kafka's first is not the end of the topic",
        "../moments.py",
        "    return max(read, BEGINNING)\n",
        "    return read\n",
    ),
    _replay(
        "what can't be read is told of",
        "events.py",
        "            yield Unreadable(record, record.unreadable or str(error))\n",
        "            pass\n",
    ),
    _replay(
        "an id goes out once",
        "events.py",
        "        self._new.add(digest)\n",
        "        pass\n",
    ),
)
