"""Mutants of the Metastore bridge: each says that a reader has ended who reads on."""

from __future__ import annotations

from mutants.mutants import Mutant

_BRIDGE = "producers/tidegate/hive_bridge/"
_METASTORE = "producers/tidegate/hive_metastore/"
_WAITING = "tests/hive_bridge/test_waiting.py"
_HOLDS = "tests/hive_metastore/test_holds.py"
_LEFT = "tests/hive_bridge/test_leftovers.py"
_ABORTED = "tests/cleaning/test_aborted.py"
_HIVE_3 = "tests/hive_bridge/test_compactions_of_hive_3.py"
_CLEANINGS = "tests/hive_bridge/test_cleanings.py"

_FACTS = "consumers/tidegate/bridges/facts.py"
_FACTS_TESTS = "tests/bridges/test_facts.py"

BRIDGE_MUTANTS = (
    Mutant(
        "bridge: it knows all that is on the topics before it looks",
        _FACTS,
        (("        self._is_caught_up = False\n", "        self._is_caught_up = True\n"),),
        _FACTS_TESTS,
    ),
    Mutant(
        "bridge: that the topics can't be read is not passed over",
        _FACTS,
        (("        if fault is not None:\n", "        if False:\n"),),
        _FACTS_TESTS,
    ),
    Mutant(
        "bridge: no garbage collection falls into a look",
        "consumers/tidegate/bridges/metastore.py",
        (("                with gc_paused():\n", "                if True:\n"),),
        "tests/bridges/test_metastore_loop.py",
    ),
    Mutant(
        "bridge: no look waits for the broker",
        _FACTS,
        (("            self._thread.start()\n", "            self._thread.run()\n"),),
        _FACTS_TESTS,
    ),
    Mutant(
        "aborted writes: rows of others beside them are not theirs",
        "consumers/tidegate/cleaning/aborted.py",
        (("is RangeResponse.ALL", "is not RangeResponse.NONE"),),
        _ABORTED,
    ),
    Mutant(
        "aborted writes: a compaction's directory has no such rows",
        "consumers/tidegate/cleaning/aborted.py",
        (("if acid.visibility_txn is not None or entry.found.compacted:", "if False:"),),
        _ABORTED,
    ),
    Mutant(
        "aborted writes: a snapshot with an open write is not final",
        "consumers/tidegate/cleaning/aborted.py",
        (("    if snapshot.has_open:", "    if False:"),),
        _ABORTED,
    ),
    Mutant(
        "aborted writes: nothing is forgotten while rows of one are left beside others",
        _BRIDGE + "aborted.py",
        (("if place.alone or place.mixed:", "if place.alone:"), ("not in alone)", "in alone)")),
        _LEFT,
    ),
    Mutant(
        "queue: not marked while a directory that the compaction made obsolete is left",
        _BRIDGE + "leftovers.py",
        (("    if left:\n", "    if False:\n"),),
        _LEFT,
    ),
    Mutant(
        "queue: not marked while rows of an aborted write are left, beside others too",
        _BRIDGE + "leftovers.py",
        (("is not RangeResponse.NONE", "is RangeResponse.ALL"),),
        _LEFT,
    ),
    Mutant(
        "queue: not marked while a write below its highest id is open",
        _BRIDGE + "leftovers.py",
        (("    if write_ids.has_open:", "    if False:"),),
        _LEFT,
    ),
    Mutant(
        "queue: a refusal is not the end of a cleaning",
        _BRIDGE + "cleanings.py",
        (("isinstance(event, DirectoriesCleaned)", "event.caused_by in self._by_command"),),
        _CLEANINGS,
    ),
    Mutant(
        "queue: a later vacuum does only the work of those that it contains",
        _BRIDGE + "cleanings.py",
        (("        if self.max_write_id < other.max_write_id:\n            return False\n", ""),),
        _CLEANINGS,
    ),
    Mutant(
        "queue: what became known after the queue was asked for is not forgotten",
        _BRIDGE + "cleanings.py",
        (("e.since < look and k not in", "k not in"),),
        _CLEANINGS,
    ),
    Mutant(
        "queue: a table with NO_CLEANUP is not cleaned",
        _BRIDGE + "cleanup_properties.py",
        (("return _is_true(_lower(parameters).get(_NO_CLEANUP))", "return False"),),
        "tests/hive_bridge/test_cleanup_properties.py",
    ),
    Mutant(
        "bridge: a look that began before a vacuum was known says nothing of its holds",
        _BRIDGE + "waiting.py",
        (("hold.since < look", "hold.since <= look"),),
        _WAITING,
    ),
    Mutant(
        "bridge: the lock of an open transaction has not ended",
        _BRIDGE + "waiting.py",
        (("if txn is not None and txn in transactions.open:", "if False:"),),
        _WAITING,
    ),
    Mutant(
        "bridge: a Metastore that has not given a transaction out yet knows nothing of its end",
        _BRIDGE + "waiting.py",
        (
            (" and hold.known_transaction <= transactions.high_water_mark", ""),
            ("if txn <= transactions.high_water_mark:", "if True:"),
        ),
        _WAITING,
    ),
    Mutant(
        "bridge: the vacuums of another catalog are another Metastore's",
        _BRIDGE + "waiting.py",
        (('return table.split(".", 1)[0] == self._catalog', "return True"),),
        _WAITING,
    ),
    Mutant(
        "bridge: a transaction that has locked nothing yet may still compile",
        _METASTORE + "holds.py",
        (
            ("        if not places:\n            return False\n", ""),
            ("get(transaction)", "get(transaction, set())"),
        ),
        _WAITING,
    ),
    Mutant(
        "bridge: where readers take no locks, a transaction holds until its end",
        _BRIDGE + "waiting.py",
        (("elif self._free_elsewhere and held", "elif held"),),
        _WAITING,
    ),
    Mutant(
        "bridge: a lock on the database holds its tables",
        _METASTORE + "holds.py",
        (("        yield from self._by_place.get((database, None), ())\n", ""),),
        _HOLDS,
    ),
    Mutant(
        "bridge: a lock on the table holds its partitions",
        _METASTORE + "holds.py",
        (
            (
                "partition is None or each.partition is None or",
                "partition is None or each.partition and",
            ),
        ),
        _HOLDS,
    ),
    Mutant(
        "bridge: the transaction with the highest id at the commit is waited for, too",
        _METASTORE + "holds.py",
        (("transaction > next_transaction_id", "transaction >= next_transaction_id"),),
        _HOLDS,
    ),
    Mutant(
        "bridge: a lock is listed without its transaction",
        _METASTORE + "holds.py",
        (("lock_id=each.lock_id,", "lock_id=each.lock_id, transaction_id=each.transaction_id,"),),
        _HOLDS,
    ),
    Mutant(
        "bridge: another database stops the bridge",
        _BRIDGE + "baseline.py",
        (("if self.metastore and snapshot.metastore != self.metastore:", "if False:"),),
        "tests/hive_bridge/test_baseline.py",
    ),
    Mutant(
        "bridge: an earlier state of the database stops the bridge",
        _BRIDGE + "baseline.py",
        (("if mark < self.high_water_mark:", "if False:"),),
        "tests/hive_bridge/test_baseline.py",
    ),
    Mutant(
        "bridge: what may have expired is said to have expired",
        _BRIDGE + "endings.py",
        (("return now - beat.seen >= limit", "return False"),),
        "tests/hive_bridge/test_endings.py",
    ),
    Mutant(
        "bridge: half an answer is not an empty list of locks",
        _METASTORE + "client.py",
        (('_whole(answer.locks, "the locks")', "answer.locks or ()"),),
        "tests/hive_metastore/test_client.py -k half_an_answer",
    ),
    Mutant(
        "bridge: an answer that comes late is never another call's",
        _METASTORE + "connection.py",
        (("        self.close()\n        message", "        message"),),
        "tests/hive_metastore/test_client.py -k comes_late",
    ),
    Mutant(
        "bridge: a compaction that is ready but not committed is not visible",
        _METASTORE + "values.py",
        (("self.transaction_id is None or self.next_transaction_id is not None", "True"),),
        "tests/hive_metastore/test_values.py",
    ),
    Mutant(
        "Hive 3: an insert overwrite's base, which may be open, is not a compaction's",
        _BRIDGE + "products.py",
        (("isinstance(e, Base) and e.name in compacted_bases", "isinstance(e, Base)"),),
        "tests/hive_bridge/test_products.py",
    ),
    Mutant(
        "Hive 3: a streaming writer's batch is not a compaction's",
        _BRIDGE + "products.py",
        (
            (
                "if isinstance(e, Delta) and any(_covers(e, o) for o in deltas)]",
                "if isinstance(e, Delta)]",
            ),
        ),
        "tests/hive_bridge/test_products.py",
    ),
    Mutant(
        "Hive 3: half of what a compaction renames is not taken for all of it",
        _BRIDGE + "describing.py",
        (("if before != after or _WORKING in after.values():", "if False:"),),
        _HIVE_3,
    ),
    Mutant(
        "Hive 3: what has open write ids is a writer's",
        _BRIDGE + "describing.py",
        (("compaction.transaction_id is None and snapshot.has_open", "False"),),
        _HIVE_3,
    ),
    Mutant(
        "Hive 3: a refused entry does not stand for the next one",
        _BRIDGE + "compactions.py",
        (('f"entry {compaction.compaction_id}"', '"entry"'),),
        _HIVE_3,
    ),
)
