"""Mutants of what shows people what happened, and of what refuses their mistakes early."""

from __future__ import annotations

from mutants.mutants import Mutant

_LACK = "consumers/tidegate/cleaning/gate_lacks.py"
_STORY = "consumers/tidegate/ops/explain/story.py"
_CHECKS = "producers/tidegate/publisher/checks.py"
_VERDICT = "schemas/tidegate/events/verdict.py"

READING_MUTANTS = (
    Mutant(
        "waiting: a transaction that has ended is not waited for",
        _LACK,
        (
            (
                "if txn not in in_locks and not index.has_ended",
                "if txn not in in_locks or index.has_ended",
            ),
        ),
        "tests/ops/waiting/test_lack.py",
    ),
    Mutant(
        "waiting: a lock ends with its transaction",
        _LACK,
        (
            (
                "    return lock_token(lock.lock_id), transaction_token(lock.transaction_id)\n",
                "    return (lock_token(lock.lock_id),)\n",
            ),
        ),
        "tests/ops/waiting/test_lack.py",
    ),
    Mutant(
        "explain: a chain is followed back to its first cause",
        _STORY,
        (("        root = cause\n", "        break\n"),),
        "tests/ops/explain/test_story.py",
    ),
    Mutant(
        "a plan that came instead of the restore is a refusal",
        _VERDICT,
        (("if outcome.message is None else Verdict.REFUSED", "if True else Verdict.REFUSED"),),
        "tests/events/test_verdict.py",
    ),
    Mutant(
        "a vacuum with another table's snapshot is refused where it is published",
        _CHECKS,
        (('if not f".{event.table}".endswith(f".{table}"):', "if False:"),),
        "tests/publisher/test_checks.py",
    ),
    Mutant(
        "a partition that leads out of the table is refused where it is published",
        _CHECKS,
        (('_STRAY & set(partition.split("/"))', "set[str]()"),),
        "tests/publisher/test_checks.py",
    ),
    Mutant(
        "a restore says how far it is at most now and then",
        "consumers/tidegate/restores/progress.py",
        (("or now - self.said_at < PAUSE", ""),),
        "tests/restores/test_restore_progress.py",
    ),
    Mutant(
        "a repeated restore says that nothing was deleted this time",
        "consumers/tidegate/restores/executor.py",
        (('{"already_done": True}', '{"already_done": False}'),),
        "tests/restores/test_restore_repeats.py -k heard_again",
    ),
    Mutant(
        "a batch of large messages has few",
        "consumers/tidegate/runtime/kafka/batch_size.py",
        (("min(self._most, fitting, ", "min(self._most, "),),
        "tests/runtime/test_batch_size.py",
    ),
    Mutant(
        "records that wait for their turn are bounded in bytes",
        "consumers/tidegate/runtime/kafka/merged_reader.py",
        ((" or source.size >= self._share", ""),),
        "tests/runtime/test_batch_size.py",
    ),
    Mutant(
        "a row of a list of dead letters holds no value",
        "consumers/tidegate/ops/dead_letters/dead_letter.py",
        (("record._replace(value=None, headers=headers)", "record._replace(headers=headers)"),),
        "tests/runtime/test_batch_size.py -k row",
    ),
    Mutant(
        "a wide value's lists are counted over all of their blocks",
        "schemas/tidegate/events/compiled_reader.py",
        (("({count} >> 1) + len({made}) > {limits[0]}", "{count} >> 1 > {limits[0]}"),),
        "tests/events/test_limits.py -k wide_value",
    ),
    Mutant(
        "a value beyond the usual limit is read by a compiled reader only",
        "schemas/tidegate/events/codec.py",
        (("    if len(value) > MAX_VALUE_BYTES:\n", "    if not value:\n"),),
        "tests/events/test_limits.py -k wide_value",
    ),
    Mutant(
        "a partition that is twice in a commit's JSON is left to the json module",
        "schemas/tidegate/hudi/json_stats.py",
        ((" or (partition := text.value()) in partitions", " or not (partition := text.value())"),),
        "tests/hudi/test_json_stats.py -k does_not_write",
    ),
    Mutant(
        "every command says that it is under way",
        "consumers/tidegate/cli/progress.py",
        (
            (
                "            add_progress(group.typer_instance, ",
                "            (group.typer_instance, ",
            ),
        ),
        "tests/docs/test_every_command.py -k under_way",
    ),
)
