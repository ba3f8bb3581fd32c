"""Who could do harm, by what, and the tests that show that it does none.

The tests lie in the room of what they test. This is the list that leads to them; a name in it that
no test has is an error.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
_HUDI, _RESUMED = "hudi/test_hudi_hostile.py", "restores/test_restore_resumed.py"
_READS, _SWAPS = "storage/test_confined_reads.py", "tables/warehouse/test_link_swaps.py"
_DEAD_LETTERS = "ops/dead_letters/test_dead_letters"
_SIGNED, _SPARK = "authorization/test_signed_commands.py", "compute/test_spark.py"

ATTACKS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "a tenant exchanges a directory with a link between check and removal": {
        _SWAPS: (
            "test_no_write_or_removal_reaches_another_table_through_an_exchanged_link",
            "test_no_read_shows_another_tables_files_through_an_exchanged_link",
        ),
        "tables/warehouse/test_link_swap_soak.py": (
            "test_the_cleaner_removes_nothing_of_another_table",
            "test_the_restorer_removes_nothing_of_another_table",
        ),
    },
    "a small file of a table ends a process or fills its memory": {
        _HUDI: (
            "test_a_hostile_commit_is_refused_in_little_memory",
            "test_properties_full_of_holes_are_refused",
        ),
        _READS: (
            "test_a_pipe_or_a_device_is_refused_at_once",
            "test_a_file_of_nothing_but_holes_is_refused_by_its_size",
            "test_directories_nested_without_end_are_refused",
            "test_a_small_file_takes_little_memory_whatever_the_limit",
        ),
        "hostile/test_decoders.py": ("test_no_input_ends_fills_or_stops_a_decoder",),
    },
    "one table's worst files keep a service from the others": {
        _HUDI: ("test_a_pending_clean_without_its_plan_is_refused_not_retried_for_ever",),
        "runtime/test_fairness.py": (
            "test_four_tables_whose_storage_is_away_do_not_hold_up_a_healthy_one",
            "test_retries_that_hang_leave_a_thread_to_the_healthy_tables",
        ),
    },
    "a planted pending restore passes for an approved one": {
        _RESUMED: (
            "test_a_planted_restore_does_not_stand_for_an_approved_plan",
            "test_resuming_a_pending_restore_does_not_delete_a_file_of_the_savepoint",
            "test_forged_numbers_of_an_earlier_attempt_reach_no_outcome",
            "test_a_link_where_outcomes_are_stored_is_refused",
            "test_a_record_of_another_table_does_not_stand_for_this_restore",
        )
    },
    "a read follows a link and shows another table's content": {
        _READS: (
            "test_no_link_below_a_root_is_read_through",
            "test_a_file_that_is_a_link_is_not_read",
        )
    },
    "a fact with values beyond every limit stops a decider": {
        "events/test_limits.py": (
            "test_a_value_beyond_a_limit_is_refused_at_the_caller",
            "test_a_value_beyond_a_limit_on_a_topic_is_a_format_error",
        ),
        "service/test_bad_input.py": (
            "test_what_follows_a_poison_message_is_worked_off",
            "test_a_request_with_a_value_beyond_its_limit_goes_to_the_dead_letters",
        ),
    },
    "a few bytes expand to gigabytes": {
        "hive/test_write_ids.py": ("test_wide_ranges_take_no_memory",),
        "runtime/test_large_dead_letters.py": ("test_a_message_that_is_large_once_it_is_unpacked",),
        "events/test_limits.py": (
            "test_a_value_that_is_too_large_is_refused_before_it_is_decoded",
        ),
    },
    "forged commits switch savepoints off": {
        "savepoints/test_retention.py": (
            "test_a_writer_s_clock_that_is_ahead_ends_no_other_savepoint",
            "test_instants_that_are_not_times_stop_nothing",
        ),
        "savepoints/test_condemned_commits.py": (
            "test_an_instant_of_the_future_is_refused_and_widens_nothing",
        ),
    },
    "forged outcomes have a savepoint removed that a person made, or the last of a tier": {
        "savepoints/test_savepoint_removal.py": (
            "test_a_policy_never_removes_what_is_not_its_own",
        ),
        "events/test_savepoint_marks.py": (
            "test_what_only_resembles_a_mark_is_not_one",
            "test_a_person_can_not_write_a_mark_in_a_comment",
        ),
        "savepoints/test_retention.py": (
            "test_the_policy_s_newest_stays_also_when_no_tier_serves_it_any_more",
            "test_a_person_s_savepoint_goes_only_at_the_end_of_its_lifetime",
        ),
        "savepoints/test_savepoint_checks.py": (
            "test_people_s_savepoints_stay_and_unowned_ones_are_named",
        ),
    },
    "forged outcomes or times stop the savepoint policy, or end savepoints early": {
        "savepoints/test_condemned_commits.py": (
            "test_an_outcome_whose_location_no_check_can_name_is_at_fault",
        ),
        "savepoints/test_savepoint_checks.py": ("test_one_clock_that_is_ahead_ends_no_lifetime",),
        "coordinator/test_due.py": (
            "test_a_record_of_the_future_does_not_make_anything_due_early",
        ),
    },
    "a forged fact under the id of a real one": {
        "events/test_fact_ids.py": (
            "test_a_fact_under_another_facts_id_is_a_format_error",
            "test_a_forged_fact_is_dead_lettered_by_the_services",
        )
    },
    "a forged dead letter is redriven and becomes a command": {
        f"{_DEAD_LETTERS}.py": (
            "test_a_dead_letter_is_what_the_record_at_its_origin_is",
            "test_headers_that_no_broker_has_written_can_still_be_listed_and_discarded",
        ),
        f"{_DEAD_LETTERS}_on_kafka.py": (
            "test_a_forged_dead_letter_of_a_restore_without_a_request_is_not_sent",
            "test_what_destroys_is_redriven_with_an_explicit_word_only",
        ),
    },
    "a forged outcome makes a restore look done": {
        "service/test_bad_input.py": (
            "test_a_forged_outcome_does_not_stand_for_the_restore_that_it_claims",
        ),
        "coordinator/test_tasks.py": (
            "test_only_the_end_of_the_task_under_way_frees_the_next",
            "test_an_outcome_counts_only_while_its_task_is_under_way",
        ),
    },
    "outcomes of another table that a tenant puts on a table": {
        "runtime/test_claimed_tasks.py": (
            "test_outcomes_of_another_table_that_lie_on_this_one_are_not_published",
        )
    },
    "a forged command, or another person's name in one": {
        _SIGNED: (
            "test_an_unsigned_command_is_refused_with_its_reason",
            "test_a_forged_signature_is_refused",
            "test_a_command_published_after_its_signature_expired_is_refused_with_both_times",
            "test_a_command_published_twice_is_carried_out_once",
            "test_a_refused_copy_does_not_keep_the_real_command_from_being_carried_out",
            "test_the_verified_name_and_not_the_one_in_the_request_is_compared_with_the_list",
        ),
        "authorization/test_services_sign.py": (
            "test_the_gate_signs_and_the_cleaner_obeys_no_other_signer",
        ),
        "runtime/test_who_asked.py": (
            "test_an_outcome_says_who_asked_and_why_as_the_command_does",
        ),
    },
    "escape sequences in names and messages reach a terminal": {
        "cli/test_output.py": (
            "test_whatever_the_text_it_is_one_printable_line",
            "test_every_command_prints_through_the_one_module_that_escapes",
        )
    },
    "Spark listens to others, or shows secrets on its command line": {
        _SPARK: (
            "test_a_local_session_listens_on_the_loopback_interface_only",
            "test_a_secret_of_the_settings_is_not_on_any_command_line",
            "test_a_session_that_others_reach_without_a_secret_is_refused",
        )
    },
    "a hostile schema in the registry": {
        "events/test_foreign_schemas.py": (
            "test_a_schema_beyond_the_limits_is_a_format_error",
            "test_a_message_of_60_kb_with_a_recursive_schema_ends_no_process",
        )
    },
    "another user of the machine reads the embedded broker's data": {
        "embedded/test_broker.py": (
            "test_other_users_may_not_read_the_data_the_settings_or_the_log",
        )
    },
    "secrets in texts": {
        "security/test_secrets.py": ("test_a_secret_reaches_the_client_and_is_in_no_text",),
        "registry/test_registry_settings.py": (
            "test_an_address_with_a_secret_is_refused_without_repeating_it",
        ),
        "signatures/test_keys.py": (
            "test_a_private_key_among_the_public_ones_is_refused_and_not_quoted",
        ),
    },
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_has_the_tests_that_are_named_for_it(attack: str) -> None:
    for file, names in ATTACKS[attack].items():
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert set(names) <= there, file
