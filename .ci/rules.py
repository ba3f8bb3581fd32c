"""The rules that guard data, each with the edit that breaks it and the test that must then fail.

`make mutation` plays them on a copy of the tree: an edit has to fit exactly once, every test passes
on the unbroken copy, and each fails once its rule is broken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

TESTS_FAILED: Final = 1
LONGEST: Final = 120
"""Seconds for one test; a broken rule may well make it hang."""


class Rule(NamedTuple):
    """A rule, the file and the code in it that is replaced, and the test that notices."""

    name: str
    file: str
    old: str
    new: str
    test: str


RULES: Final = (
    # the gate
    Rule(
        "a vacuum waits for its last hold",
        "consumers/tidegate/coordinator/memory.py",
        "for reader in vacuum.readers:",
        "for reader in vacuum.readers[:1]:",
        "tests/coordinator/test_readers.py::test_a_vacuum_published_again_with_more_holds_waits_for_all_of_them",
    ),
    Rule(
        "an open transaction is a hold",
        "consumers/tidegate/coordinator/vacuums.py",
        "found += map(partial(reader_of, None), self.transactions)",
        "found += map(partial(reader_of, None), ())",
        "tests/coordinator/test_readers.py::test_a_vacuum_published_again_with_more_holds_waits_for_all_of_them",
    ),
    Rule(
        "a release that came before its vacuum is remembered",
        "consumers/tidegate/coordinator/memory.py",
        'rows.put("ended", event.table, token, (now, expired, epochs))',
        "pass",
        "tests/coordinator/test_readers.py::test_a_vacuum_waits_until_the_last_lock_it_saw_is_released",
    ),
    Rule(
        "an id of a restored Metastore is of another reader",
        "consumers/tidegate/coordinator/memory.py",
        "or epoch in end.epochs.split()",
        "or bool(end.epochs)",
        "tests/coordinator/test_readers.py::test_the_end_of_an_id_that_a_restored_metastore_gives_out_again_ends_no_new_reader",
    ),
    Rule(
        "a lock ends with its transaction",
        "consumers/tidegate/coordinator/memory.py",
        "(*lock, 2 * transaction_id + 1)",
        "(lock or (2 * transaction_id + 1,))",
        "tests/coordinator/test_readers.py::test_a_lock_ends_with_its_transaction",
    ),
    Rule(
        "a vacuum that becomes free while its table is held waits",
        "consumers/tidegate/coordinator/readers.py",
        "if freed and is_held(rows, table):",
        "if freed and not table:",
        "tests/coordinator/test_holds.py::test_what_becomes_free_while_a_table_is_held_is_released_with_the_holds_removal",
    ),
    # the cleaner, its quarantine and aborted writes
    Rule(
        "a vacuum removes only what it made obsolete",
        "schemas/tidegate/hive/compaction.py",
        "return not self.is_product(acid) and not self._is_newer(acid)",
        "return not self._is_newer(acid)",
        "tests/hive/test_compaction.py::test_a_product_stays_though_a_wider_delta_shadows_it",
    ),
    Rule(
        "a removed directory is covered by a product that stays",
        "consumers/tidegate/cleaning/products.py",
        "if covers(product,",
        "if product or covers(product,",
        "tests/cleaning/test_plan.py::test_deletes_go_only_if_a_product_of_deletes_holds_them",
    ),
    Rule(
        "a product is complete before anything goes",
        "consumers/tidegate/cleaning/products.py",
        "complete = [",
        "complete = list(products) or [",
        "tests/cleaning/test_plan.py::test_nothing_goes_while_a_product_holds_no_bucket_file",
    ),
    Rule(
        "deletes outlive the rows that they delete",
        "consumers/tidegate/cleaning/plan.py",
        'startswith("delete_delta_")',
        'startswith("none")',
        "tests/cleaning/test_plan.py::test_deletes_outlive_the_rows_that_they_delete",
    ),
    Rule(
        "a table that was replaced since the plan is left alone",
        "consumers/tidegate/cleaning/removal.py",
        "return files == directory.files or",
        "return True or",
        "tests/cleaning/test_removal.py::test_a_table_that_is_replaced_while_it_is_cleaned_keeps_its_new_directories",
    ),
    Rule(
        "a snapshot with an open write removes no aborted rows",
        "consumers/tidegate/cleaning/plan.py",
        "if snapshot.has_open:",
        "if False:",
        "tests/cleaning/test_aborted.py::test_a_snapshot_that_is_not_final_or_of_another_table_removes_nothing",
    ),
    Rule(
        "an expired hold quarantines instead of deleting",
        "consumers/tidegate/cleaning/settings.py",
        "if mode is CleaningMode.DELETE and command.after_expiry:",
        "if False:",
        "tests/cleaning/test_quarantine.py::test_the_mode_follows_the_first_rule_that_matches_and_expiry_quarantines",
    ),
    Rule(
        "on S3 a version that came back from quarantine is not removed at its end",
        "consumers/tidegate/tables/warehouse/s3_versions.py",
        " and not keys[key].shows(version)",
        "",
        "tests/tables/warehouse/test_s3_versions.py::test_a_version_that_came_back_is_not_removed",
    ),
    Rule(
        "the end of a quarantine on S3 shows no older version again",
        "consumers/tidegate/tables/warehouse/s3_versions.py",
        "if key in keys and not keys[key].versions]",
        "if key in keys]",
        "tests/tables/warehouse/test_s3_versions.py::test_a_marker_below_an_older_version_stays",
    ),
    Rule(
        "an undo on S3 is refused where an object was written again",
        "consumers/tidegate/tables/warehouse/s3_versions.py",
        "at.current[0] != listed.get(key)",
        "False",
        "tests/cleaning/test_quarantine_on_s3.py::test_an_object_that_is_written_again_is_neither_replaced_nor_removed",
    ),
    Rule(
        "a lifecycle rule that is shorter than the quarantine is named",
        "consumers/tidegate/tables/warehouse/s3_versions.py",
        "n * _DAY < keep",
        "n * _DAY < keep / 99",
        "tests/tables/warehouse/test_s3_versions.py::test_a_rule_of_the_bucket_that_is_shorter_than_a_quarantine_is_named",
    ),
    Rule(
        "a task with a lower number does nothing more",
        "consumers/tidegate/tables/task_numbers.py",
        "> self.number:",
        "> self.number + 99:",
        "tests/tables/test_claim.py::test_a_stalled_worker_does_nothing_once_a_later_task_is_on_the_table",
    ),
    Rule(
        "the first name of a location is its only one",
        "consumers/tidegate/tables/claim.py",
        "if found != ours:",
        "if False:",
        "tests/tables/test_claim.py::test_the_first_name_has_the_location_and_another_is_refused_by_name",
    ),
    Rule(
        "a partition belongs to its table's name",
        "consumers/tidegate/tables/claim.py",
        "if table is not None:",
        "if False:",
        "tests/runtime/test_claimed_tasks.py::test_a_table_that_has_a_name_gives_none_of_its_partitions_to_another",
    ),
    Rule(
        "the last outcome of a task is recorded before it is published",
        "consumers/tidegate/runtime/executor/command_runner.py",
        "claim.finish([*last, self.ended(issued, stopped=stopped)])",
        "[*last, self.ended(issued, stopped=stopped)]",
        "tests/runtime/test_claimed_tasks.py::test_a_repeat_publishes_the_recorded_outcome_and_nothing_else",
    ),
    Rule(
        "a hold stops the cleaning that is under way",
        "consumers/tidegate/coordinator/tasks.py",
        "(lane == CLEANINGS and is_held(rows, table))",
        "False",
        "tests/coordinator/test_tasks.py::test_a_hold_stops_the_cleaning_that_is_under_way_and_is_then_confirmed",
    ),
    Rule(
        "a stop answers only once no check from before it counts",
        "consumers/tidegate/tables/claim.py",
        "            self.outlast()",
        "            pass",
        "tests/runtime/test_claimed_tasks.py::test_a_stop_runs_beside_the_task_that_it_stops",
    ),
    Rule(
        "a request that has begun is not withdrawn",
        "consumers/tidegate/coordinator/requests.py",
        "if found.has_begun:",
        "if False:",
        "tests/coordinator/test_requests.py::test_a_request_that_has_begun_goes_on_under_a_new_number_before_all_others",
    ),
    Rule(
        "a pending restore has begun",
        "consumers/tidegate/restores/executor.py",
        "return begun is not None or bool(table.timeline.pending_restores)",
        "return begun is not None",
        "tests/runtime/test_claimed_tasks.py::test_a_restore_has_begun_once_one_is_on_the_timeline",
    ),
    Rule(
        "an undo needs a product that hides the directory",
        "consumers/tidegate/cleaning/quarantine_commands.py",
        "if not any(hides(product, found) for product in complete):",
        "if False:",
        "tests/cleaning/test_quarantine.py::test_an_undo_that_could_harm_is_refused_and_changes_nothing",
    ),
    Rule(
        "a directory that was exchanged is moved back",
        "consumers/tidegate/tables/warehouse/local_changes.py",
        "if not os.path.samestat(moved, os.fstat(directory)):",
        "if False:",
        "tests/tables/warehouse/test_moves.py::test_what_was_put_in_its_place_after_the_look_is_moved_back",
    ),
    # storage and the warehouse
    Rule(
        "nothing outside the warehouse roots is touched",
        "consumers/tidegate/tables/warehouse/roots.py",
        'raise ConfinementError(f"{location} is',
        'return where or str(f"{location} is',
        "tests/tables/warehouse/test_open_folder.py::test_only_a_directory_below_the_roots_is_opened",
    ),
    Rule(
        "no directory below a root is a link",
        "producers/tidegate/storage/local.py",
        "os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent",
        "os.O_DIRECTORY, dir_fd=parent",
        "tests/storage/test_confined_reads.py::test_no_link_below_a_root_is_read_through",
    ),
    Rule(
        "no link among many files is removed",
        "consumers/tidegate/tables/warehouse/local_changes.py",
        "            refuse_link(path)\n        with located(path):\n            os.unlink(",
        "            pass\n        with located(path):\n            os.unlink(",
        "tests/tables/warehouse/test_writer.py::test_a_link_among_many_files_is_refused_and_stays",
    ),
    Rule(
        "what is there after a removal on an object store is reported",
        "consumers/tidegate/tables/warehouse/changes.py",
        "        return not self.store.remove_listed(location, found)\n",
        "        self.store.remove_listed(location, found)\n        return True\n",
        "tests/tables/warehouse/test_s3.py::test_a_file_that_a_writer_puts_after_the_listing_is_left_and_reported",
    ),
    Rule(
        "a file that appears below a directory after the last look stays",
        "consumers/tidegate/tables/warehouse/local_changes.py",
        'if only is not None and f"{path}/{name}" not in only:',
        "if False:",
        "tests/tables/warehouse/test_open_folder.py::test_a_file_that_appears_in_a_directory_below_after_the_last_look_stays",
    ),
    Rule(
        "the same content of another process is not this one's creation",
        "consumers/tidegate/tables/warehouse/object_files.py",
        "if self.mark_of(key) != mark:",
        "if self.mark_of(key) is mark:",
        "tests/tables/warehouse/test_s3.py::test_a_change_whose_answer_was_lost_is_done",
    ),
    Rule(
        "an empty file is not taken for the marker of a directory",
        "producers/tidegate/storage/s3.py",
        "                elif not size:\n                    return None\n",
        "",
        "tests/tables/warehouse/test_s3.py::test_a_directory_goes_with_its_markers",
    ),
    Rule(
        "a cluster's name is never read as a URL",
        "producers/tidegate/storage/hdfs.py",
        "if not _AUTHORITY.fullmatch(authority):",
        "if not authority:",
        "tests/tables/warehouse/test_hdfs_away.py::test_an_authority_that_a_url_parser_would_read_as_another_is_refused",
    ),
    Rule(
        "the longest mount of ViewFs wins",
        "producers/tidegate/storage/locations.py",
        "mount = max(above, key=len)",
        "mount = min(above, key=len)",
        "tests/tables/warehouse/test_hdfs_away.py::test_a_location_of_viewfs_is_that_behind_its_mount",
    ),
    Rule(
        "after a call of HDFS that was not answered, no other of its batch is made",
        "producers/tidegate/storage/deadlines.py",
        "            if waiting.is_left:",
        "            if False:",
        "tests/tables/warehouse/test_hdfs_away.py::test_after_a_call_that_did_not_answer_no_other_of_its_batch_is_made",
    ),
    Rule(
        "after a call of HDFS that was not answered, nothing that follows is removed",
        "producers/tidegate/storage/deadlines.py",
        "        self._count()\n        results: list[R] = []\n",
        "        results: list[R] = []\n",
        "tests/tables/warehouse/test_hdfs_away.py::test_after_a_call_that_did_not_answer_no_other_of_the_call_around_it_is_made",
    ),
    Rule(
        "a file on HDFS that took a listed name stays",
        "consumers/tidegate/tables/warehouse/hdfs_files.py",
        "self._entry_or_none(entry.path) == entry and ",
        "",
        "tests/tables/warehouse/test_hdfs.py::test_a_file_of_the_same_size_that_took_a_listed_name_stays",
    ),
    Rule(
        "a directory on HDFS that changed during its move is moved back",
        "consumers/tidegate/tables/warehouse/hdfs_files.py",
        "if self.entry(there).modified_ms != checked.modified_ms:",
        "if not checked:",
        "tests/tables/warehouse/test_hdfs.py::test_a_directory_that_changed_after_the_look_is_moved_back",
    ),
    # restores
    Rule(
        "a resumed restore goes through every check",
        "consumers/tidegate/restores/preparation.py",
        "    check_timeline(table,",
        "    pending or check_timeline(table,",
        "tests/restores/test_restore_resumed.py::test_resuming_a_pending_restore_does_not_destroy_a_later_savepoint",
    ),
    Rule(
        "a commit that the requester could not know stays",
        "consumers/tidegate/restores/checks.py",
        "if last > bound:",
        "if last > bound and not bound:",
        "tests/restores/test_restore_resumed.py::test_a_commit_that_the_requester_could_not_know_of_is_not_destroyed",
    ),
    Rule(
        "data files go before the pending files of their commits",
        "consumers/tidegate/restores/run.py",
        "self._writer.remove(f for f in files if f.state is InstantState.COMPLETED)",
        "self._writer.remove(files)",
        "tests/restores/test_restore_crashes.py::test_a_restore_killed_at_any_step_is_resumed_to_the_same_end"
        "[copy-on-write 6]",
    ),
    Rule(
        "a restore is not complete while a new commit is on top",
        "consumers/tidegate/restores/executor.py",
        "run.check_end()",
        "pass",
        "tests/restores/test_merge_on_read_races.py::test_a_write_during_a_restore_is_rolled_back_too_or_stays_whole"
        "[some steps-9]",
    ),
    Rule(
        "a writer's table lock is not taken over",
        "consumers/tidegate/restores/liveness.py",
        '(_owner(warehouse, path) or "").startswith(OWNER)',
        "there is not None",
        "tests/restores/test_table_lock.py::test_a_lock_that_a_writer_takes_after_the_look_refuses_it_too",
    ),
    Rule(
        "a restore that lost its storage lock changes nothing more",
        "consumers/tidegate/restores/storage_lock.py",
        "there.owner != self.owner or ",
        "",
        "tests/restores/test_table_lock_on_s3.py::test_a_stalled_restorer_changes_nothing_more_once_a_writer_has_its_lock",
    ),
    Rule(
        "a metadata table is moved away before its files are removed",
        "consumers/tidegate/restores/metadata_table.py",
        "_move_away(warehouse, location, restore, check)",
        "pass",
        "tests/restores/test_restore_crashes.py::test_no_part_of_a_metadata_table_is_left_by_a_death_within_its_removal",
    ),
    Rule(
        "a rebalance that aborted has not committed",
        "producers/tidegate/hive_metastore/values.py",
        "committed=transactions.valid().is_valid(self.transaction_id)",
        "committed=True",
        "tests/cleaning/test_confirmation.py::test_a_rebalance_is_not_proven_because_its_row_does_not_bound_its_readers",
    ),
    Rule(
        "a rebalance whose readers are not bounded is not confirmed",
        "consumers/tidegate/cleaning/confirmation.py",
        "return has_last and all(",
        "return row is not None and all(",
        "tests/cleaning/test_confirmation.py::test_a_rebalance_is_not_proven_because_its_row_does_not_bound_its_readers",
    ),
    Rule(
        "long removals are confirmed again",
        "consumers/tidegate/cleaning/executor.py",
        "if now - progress.asked_at >= self.confirm_every.total_seconds():",
        "if now < 0:",
        "tests/cleaning/test_second_source.py::test_a_contradiction_that_arises_during_a_long_removal_ends_it",
    ),
    Rule(
        "unproven products have the rows of what they replace",
        "consumers/tidegate/cleaning/second_source.py",
        "if have + deleted < inserted:",
        "if have + deleted < 0:",
        "tests/cleaning/test_second_source.py::test_products_with_fewer_rows_than_their_inputs_replace_nothing",
    ),
    # approvals and signatures
    Rule(
        "an unsigned fact ends no hold",
        "consumers/tidegate/coordinator/loop.py",
        "signed = SIGNED if self._authorization.checks_signatures else ()",
        "signed = ()",
        "tests/authorization/test_services_sign.py::test_no_cleaning_follows_from_a_fact_that_no_trusted_key_has_signed",
    ),
    Rule(
        "a key signs only for its locations",
        "consumers/tidegate/runtime/authorization.py",
        "found == place or is_below(found, place) for place in self.locations",
        "bool(place) for place in self.locations",
        "tests/authorization/test_services_sign.py::test_no_cleaning_follows_from_a_fact_that_no_trusted_key_has_signed",
    ),
    Rule(
        "the plan made now has to be the approved one",
        "consumers/tidegate/restores/approval.py",
        "if reviewed not in plan.approved_by:",
        "if not plan.approved_by:",
        "tests/restores/test_restore_approval.py::test_the_plan_is_made_again_and_has_to_be_the_approved_one",
    ),
    Rule(
        "a restore that needs an approval waits for it",
        "consumers/tidegate/restores/executor.py",
        "if rule is not None and approval is None:",
        "if rule is not None and approval is self:",
        "tests/restores/test_restore_approval.py::test_a_request_waits_for_an_approval_and_changes_nothing",
    ),
    Rule(
        "an expired signature is refused",
        "consumers/tidegate/runtime/authorization.py",
        "if at > expires:",
        "if at == expires:",
        "tests/authorization/test_signed_commands.py::test_a_command_published_after_its_signature_expired_is_refused_with_both_times",
    ),
    Rule(
        "a signature is bound to the command's content",
        "schemas/tidegate/events/signature.py",
        "sha256(canonical(event)).digest()",
        "sha256(event.table.encode()).digest()",
        "tests/authorization/test_signed_commands.py::test_a_forged_signature_is_refused",
    ),
    Rule(
        "the coordinator acts on no outcome that no worker signed",
        "consumers/tidegate/coordinator/loop.py",
        "self._authorization.require(event, record)",
        "self._authorization.checks_signatures",
        "tests/authorization/test_services_sign.py::test_the_coordinator_acts_on_no_outcome_that_no_worker_signed",
    ),
    Rule(
        "a worker ends only what the coordinator issued",
        "consumers/tidegate/runtime/executor/command_runner.py",
        "return refused.reason is Reason.SIGNATURE_EXPIRED",
        "return True",
        "tests/authorization/test_services_sign.py::test_a_worker_signs_no_end_of_a_task_that_the_coordinator_did_not_issue",
    ),
    Rule(
        "a signature names the cluster",
        "schemas/tidegate/events/signature.py",
        '"cluster": cluster,',
        '"cluster": "any",',
        "tests/authorization/test_signed_commands.py::test_a_forged_signature_is_refused",
    ),
    Rule(
        "a publisher's time revives no expired signature",
        "consumers/tidegate/runtime/authorization.py",
        "if not record.is_brokers_time:",
        "if False:",
        "tests/authorization/test_signed_commands.py::test_no_signature_counts_where_the_time_of_a_message_is_its_publisher_s",
    ),
    Rule(
        "a service whose key may not sign what it publishes does not start",
        "consumers/tidegate/service/assembly.py",
        "if listed and role not in listed[0].roles:",
        "if False:",
        "tests/authorization/test_services_sign.py::test_a_service_whose_key_may_not_sign_what_it_publishes_does_not_start",
    ),
    Rule(
        "only listed people restore",
        "consumers/tidegate/runtime/authorization.py",
        "if isinstance(event, RestoreRequested) and not event.plan_only:",
        "if False:",
        "tests/security/test_who_may_restore.py::test_who_is_not_listed_is_refused_with_a_reason",
    ),
    # savepoints and their policies
    Rule(
        "a file of a pending write is not committed",
        "schemas/tidegate/hudi/timeline.py",
        "if timestamp in self._times_of_writes:",
        "if False:",
        "tests/hudi/test_hudi_timeline.py::test_a_pending_write_older_than_the_timeline_is_not_committed",
    ),
    Rule(
        "a savepoint is completed only if its commit is still there",
        "consumers/tidegate/savepoints/writing.py",
        "if is_there and is_kept and _removals(now) == _removals(table.timeline):",
        "if not is_there or now or is_kept:",
        "tests/savepoints/test_savepoint_races.py::test_a_restore_while_a_savepoint_is_planned_leaves_no_savepoint_of_a_commit_that_is_gone",
    ),
    Rule(
        "the newest savepoint of a policy stays, whatever its tiers",
        "consumers/tidegate/savepoints/retention.py",
        "saved.instant in kept or saved is own[-1]",
        "saved.instant in kept",
        "tests/savepoints/test_retention.py::test_the_policy_s_newest_stays_also_when_no_tier_serves_it_any_more",
    ),
    Rule(
        "a policy removes only its own savepoints",
        "consumers/tidegate/savepoints/removal.py",
        "if mark is None or (mark.policy, mark.lifetime) != ended:",
        "if mark is None:",
        "tests/savepoints/test_savepoint_removal.py::test_a_policy_never_removes_what_is_not_its_own",
    ),
    Rule(
        "a request is used once",
        "consumers/tidegate/coordinator/requests.py",
        "if _was_used(table, number, rows):",
        "if False:",
        "tests/coordinator/test_requests.py::test_the_same_bytes_again_restore_nothing",
    ),
    Rule(
        "a restore has one approval at a time",
        "consumers/tidegate/coordinator/requests.py",
        "        elif waits is None or until is None:\n",
        "        elif False:\n",
        "tests/coordinator/test_requests.py::test_a_second_approval_is_refused_until_the_worker_refused_the_first",
    ),
    Rule(
        "a restore that is over waits for no approval",
        "consumers/tidegate/coordinator/requests.py",
        "            if until is None:\n",
        "            if False:\n",
        "tests/coordinator/test_requests.py::test_a_restore_that_is_done_takes_no_further_approval",
    ),
    Rule(
        "of the waiting checks of a table the newest is carried out",
        "consumers/tidegate/coordinator/tasks.py",
        "    if queued.lane == CHECKS:  # the newest replaces one that waits\n",
        "    if False:\n",
        "tests/coordinator/test_requests.py::test_of_the_checks_of_a_table_that_wait_only_the_newest_is_carried_out",
    ),
    Rule(
        "a request's headers count towards what a task can carry",
        "consumers/tidegate/coordinator/outgoing.py",
        "(body + headers + _OVERHEAD_BYTES)",
        "body",
        "tests/coordinator/test_requests.py::test_a_request_that_no_task_can_carry_is_set_aside_and_the_next_goes_on",
    ),
    # crashes, commits and offsets
    Rule(
        "a new process restores its state before its first event",
        "consumers/tidegate/coordinator/partitions.py",
        "stores[number].restore(read.pop(number, ()))",
        "pass",
        "tests/coordinator/test_loop.py::test_rule_1_a_new_process_restores_the_state_before_its_first_event",
    ),
    Rule(
        "a step is finished before its partition goes",
        "consumers/tidegate/coordinator/loop.py",
        "self._finish(wait=True)",
        "pass",
        "tests/coordinator/test_loop.py::test_rule_2_what_a_step_began_is_finished_before_its_partitions_go",
    ),
    Rule(
        "what was decided is remembered before it is published",
        "consumers/tidegate/coordinator/loop.py",
        "        self._owned.write(pending)\n        self._publish_unsent(pending.values())\n",
        "        self._publish_unsent(pending.values())\n        self._owned.write(pending)\n",
        "tests/coordinator/test_loop.py::test_rule_2_remember_then_publish_then_commit",
    ),
    Rule(
        "what was remembered and not published is published at an assignment",
        "consumers/tidegate/coordinator/loop.py",
        "self._publish_unsent(owned, running)  # invariant 1",
        "pass",
        "tests/coordinator/test_loop.py::test_rule_2_a_command_that_was_not_delivered_leaves_its_event_unacknowledged",
    ),
    Rule(
        "half a batch does not count",
        "consumers/tidegate/coordinator/rows/store.py",
        "        self._batch_changes = {key: rows.get(key) for key in cut}\n",
        "        self._batch_changes = {}\n",
        "tests/coordinator/test_store.py::test_what_has_no_end_mark_is_written_again_with_its_former_value",
    ),
    Rule(
        "an exception rolls back the rows of its event",
        "consumers/tidegate/coordinator/rows/store.py",
        'self.execute("rollback to event")',
        "pass",
        "tests/coordinator/test_loop.py::test_an_exception_rolls_one_event_back_and_the_others_of_the_batch_stay",
    ),
    Rule(
        "what is watched is found by its index",
        "consumers/tidegate/coordinator/vacuums.py",
        "indexed by vacuum_lock where",
        "not indexed where",
        "tests/coordinator/test_store.py::test_no_statement_scans_a_hot_table",
    ),
    Rule(
        "an id is derived from its cause",
        "schemas/tidegate/events/fields.py",
        "    variant = _VARIANT",
        "    name = uuid.uuid4().hex\n    variant = _VARIANT",
        "tests/coordinator/test_loop.py::test_rule_3_a_repeated_command_has_the_same_id",
    ),
    Rule(
        "an event is applied once",
        "consumers/tidegate/coordinator/rows/store.py",
        "return self.position.offsets.get(topic, 0)",
        "return 0",
        "tests/coordinator/test_loop.py::test_rules_2_and_3_a_death_at_any_moment_loses_nothing_and_counts_nothing_twice",
    ),
    Rule(
        "an offset is committed after its outcome",
        "consumers/tidegate/runtime/executor/loop.py",
        "self._tasks.put((command.table",
        "offsets.finish(record.offset); self._tasks.put((command.table",
        "tests/runtime/test_executor_loop.py::test_nothing_is_acknowledged_before_its_outcome_is_on_the_broker",
    ),
    Rule(
        "no savepoint is derived from a damaged one",
        "schemas/tidegate/hudi/savepoint.py",
        "if metadata.encode(header) != content:",
        "if False:",
        "tests/hudi/test_hudi_metadata.py::test_a_savepoint_with_a_damaged_byte_is_not_taken_for_our_own",
    ),
    Rule(
        "a repeat of a task that was given up is not carried out",
        "consumers/tidegate/runtime/executor/loop.py",
        "if found is None or record.value in offsets.tasks:",
        "if found is None:",
        "tests/runtime/test_executor_loop.py::test_a_repeat_of_a_task_that_was_given_up_meanwhile_is_not_carried_out",
    ),
    Rule(
        "an offset is committed behind the last open command",
        "consumers/tidegate/runtime/executor/loop.py",
        "next(iter(self._pending), self.end)",
        "self.end",
        "tests/runtime/test_executor_loop.py::test_nothing_is_acknowledged_before_its_outcome_is_on_the_broker",
    ),
    Rule(
        "a consumer never jumps to the end of a topic",
        "consumers/tidegate/runtime/kafka/subscription.py",
        '"auto.offset.reset": "error"',
        '"auto.offset.reset": "latest"',
        "tests/publisher/test_client_settings.py::test_what_breaks_no_guarantee_is_accepted",
    ),
    Rule(
        "offsets are invalid on a topic that was created again",
        "consumers/tidegate/coordinator/rows/position.py",
        "if self.topic_ids.setdefault(topic, watermarks.topic_id) != watermarks.topic_id:",
        "if not self.topic_ids.setdefault(topic, watermarks.topic_id):",
        "tests/coordinator/test_loop.py::test_rule_7_a_topic_that_was_created_again_is_neither_skipped_nor_read_as_the_old_one",
    ),
    Rule(
        "a poison message becomes a dead letter",
        "consumers/tidegate/runtime/input/dead_letters.py",
        "self.retries.call(lambda: self.bus.send([message]))",
        "pass",
        "tests/coordinator/test_loop.py::test_rule_6_a_poison_message_goes_to_the_dead_letters_and_the_rest_goes_on",
    ),
    # rows that are made again, because the changelog was lost
    Rule(
        "what has its outcome is not done again",
        "consumers/tidegate/coordinator/loop.py",
        "if not (is_end or kind in requests.COUNT_LATE):",
        "if kind not in requests.COUNT_LATE:",
        "tests/coordinator/test_rebuilt_rows.py::test_a_restore_that_is_complete_is_neither_repeated_nor_refused",
    ),
    Rule(
        "what was undone is not done again",
        "consumers/tidegate/coordinator/loop.py",
        "if not Requests.is_over(command, store):",
        "if command:",
        "tests/coordinator/test_rebuilt_rows.py::test_a_cleaning_that_was_undone_is_not_repeated",
    ),
    Rule(
        "numbers continue above the table's",
        "consumers/tidegate/coordinator/running_tasks.py",
        "(event.number < highest < last + MOST_AHEAD and not is_stop)",
        "False",
        "tests/coordinator/test_rebuilt_rows.py::test_tasks_continue_above_the_numbers_on_the_table",
    ),
    Rule(
        "what may have begun is not withdrawn",
        "consumers/tidegate/coordinator/loop.py",
        "signer, has_begun=begun)",
        "signer)",
        "tests/coordinator/test_rebuilt_rows.py::test_what_was_requested_before_may_have_begun_and_can_not_be_withdrawn",
    ),
    # the Metastore bridge
    Rule(
        "the lock of an open transaction has not ended",
        "producers/tidegate/hive_bridge/waiting.py",
        "if txn is not None and txn in transactions.open:",
        "if False:",
        "tests/hive_bridge/test_waiting.py::test_the_lock_of_a_transaction_ends_with_it_and_not_before",
    ),
    Rule(
        "a heartbeat came after the poll before it was seen",
        "producers/tidegate/hive_bridge/endings.py",
        "after, self._last_began = self._last_began, began",
        "after = self._last_began = began",
        "tests/hive_bridge/test_endings.py::test_a_bridge_without_processor_time_takes_no_old_heartbeat_for_a_new_one",
    ),
    Rule(
        "what ended before the bridge watched may have expired",
        "producers/tidegate/hive_bridge/endings.py",
        " or transaction <= self._watching_from",
        "",
        "tests/hive_bridge/test_endings.py::test_what_a_vacuum_of_before_the_bridge_names_may_have_expired_before_it_came",
    ),
    # Hive: what overwrites replaced, odd tables, a Metastore that breaks off, renames
    Rule(
        "an entry of the queue without a product has what it found published",
        "producers/tidegate/hive_bridge/products.py",
        "if entry.name in current and any(covers(entry.acid, other) for other in obsolete):",
        "if False:",
        "tests/hive_bridge/test_overwrites.py::test_what_readers_read_in_place_of_others_is_named",
    ),
    Rule(
        "a compaction's cleaning removes what the overwrite before it replaced",
        "schemas/tidegate/hive/compaction.py",
        "if overwrite is not None and not self._builds_on(overwrite):",
        "if overwrite is not None:",
        "tests/cleaning/test_overwrites.py::test_after_a_minor_compaction_what_an_overwrite_replaced_goes_too",
    ),
    Rule(
        "an overwrite that has not committed replaces nothing",
        "schemas/tidegate/hive/compaction.py",
        "return self.write_ids.is_valid(base.acid.max_write_id)",
        "return True",
        "tests/cleaning/test_overwrites.py::test_what_an_overwrite_replaced_stays_where_it_does_not_count_or_is_anothers",
    ),
    Rule(
        "a name that no event can hold is the fault of its table alone",
        "producers/tidegate/hive_bridge/compactions.py",
        "except ValueError as error:  # for example a name that no event can hold",
        "except LookupError as error:",
        "tests/hive_bridge/test_compactions_of_hive_3.py::test_one_whose_names_can_not_be_written_ends_nothing_and_the_next_is_published",
    ),
    Rule(
        "open transactions are listed while an id is pending",
        "producers/tidegate/hive_metastore/client.py",
        "            return self.transaction_states()\n",
        "            raise\n",
        "tests/hive_metastore/test_values.py::test_transactions_are_listed_by_the_other_call_while_an_id_is_pending",
    ),
    Rule(
        "rows of an aborted write keep a compaction from being marked",
        "producers/tidegate/hive_bridge/marking.py",
        "if rows is RangeResponse.ALL or (rows is RangeResponse.SOME and not is_product):",
        "if False:",
        "tests/hive_bridge/test_leftovers.py::test_rows_of_an_aborted_write_are_left",
    ),
    Rule(
        "an event can't make a streaming writer's delta the product of a compaction",
        "producers/tidegate/hive_bridge/marking.py",
        "is_product = own is None and compaction.is_product(directory.acid)",
        "is_product = compaction.is_product(directory.acid)",
        "tests/hive_bridge/test_leftovers.py::test_a_streaming_writers_rows_are_left_whatever_an_event_calls_them",
    ),
    Rule(
        "a compaction that aborted keeps the next one from being marked",
        "producers/tidegate/hive_bridge/marking.py",
        "if directory.acid.max_write_id <= write_ids.high_water_mark:",
        "if False:",
        "tests/hive_bridge/test_leftovers.py::test_a_directory_of_a_compaction_that_aborted_is_left",
    ),
    Rule(
        "a compaction is not removed as aborted unless the second source says so",
        "schemas/tidegate/hive/compaction.py",
        "failed = tuple(one for one in found if one.acid.visibility_txn in aborted_txns)",
        "failed = tuple(one for one in found if (one.acid.visibility_txn or 9) != 9)",
        "tests/cleaning/test_second_source.py::test_what_a_compaction_left_that_aborted_goes_with_the_next_ones_inputs",
    ),
    Rule(
        "an undo does not put back what a compaction left that aborted",
        "consumers/tidegate/cleaning/quarantine.py",
        "failed=plan.failed,",
        "failed=(),",
        "tests/cleaning/test_undo_plan.py::test_an_undo_leaves_what_a_compaction_left_that_aborted_in_quarantine",
    ),
    Rule(
        "no abort is forgotten while a compaction may leave a directory",
        "producers/tidegate/hive_bridge/aborted.py",
        "and not before.is_valid(entry.transaction_id)",
        "and False",
        "tests/hive_bridge/test_aborted_recreated.py::test_no_abort_is_forgotten_while_a_compaction_may_leave_a_directory",
    ),
    Rule(
        "a rename moves a reader's lock, and does not end the reader",
        "producers/tidegate/hive_bridge/bridge.py",
        "renamed = {place for place in tables if not self._is_at(*place)}",
        "renamed = set[object]()",
        "tests/hive_bridge/test_renames.py::test_a_reader_of_another_table_ends_unless_its_lock_may_have_moved_with_a_rename",
    ),
    Rule(
        "another Metastore database stops the bridge",
        "producers/tidegate/hive_bridge/baseline.py",
        "if self.metastore and snapshot.metastore != self.metastore:",
        "if False:",
        "tests/hive_bridge/test_baseline.py::test_another_database_stops_the_bridge",
    ),
)


def survivors_of_rules(copy: Path) -> int:
    """Break every rule in a copy of the tree; return how many of them no test noticed.

    Raises:
        SystemExit: an edit does not fit, or a test fails although nothing is broken.
    """
    stale = [rule for rule in RULES if (copy / rule.file).read_text("utf-8").count(rule.old) != 1]
    for rule in stale:
        print(f"{rule.name!r}: {rule.file} does not have exactly one {rule.old!r}")
    if stale:
        raise SystemExit(f"{len(stale)} edits do not fit: bring .ci/rules.py up to date")
    sound = _pytest(copy, *sorted({rule.test for rule in RULES}))
    if sound.returncode:
        raise SystemExit(
            f"{sound.stdout}{sound.stderr}\ntests of .ci/rules.py fail although nothing is broken"
        )
    return sum(not _is_noticed(rule, copy) for rule in RULES)


def _is_noticed(rule: Rule, copy: Path) -> bool:
    file = copy / rule.file
    sound = file.read_text("utf-8")
    file.write_text(sound.replace(rule.old, rule.new), "utf-8")
    try:
        done = _pytest(copy, rule.test)
    finally:
        file.write_text(sound, "utf-8")
    if done.returncode not in {0, TESTS_FAILED}:
        raise SystemExit(f"{done.stdout}{done.stderr}\n{rule.name!r}: the test did not run")
    is_noticed = done.returncode == TESTS_FAILED
    print(f"{'noticed ' if is_noticed else 'SURVIVED'}  {rule.name}", flush=True)
    return is_noticed


def _pytest(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    # two rules need a real NameNode, so their tests are `full`
    options = ("-x", "-q", "-m", "not soak", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--timeout={LONGEST}", *tests],
        cwd=copy,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
