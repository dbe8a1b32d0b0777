"""Which tests only `make test-all` runs: long tests, and all but a sample of the tests with many cases.

Used by tests/conftest.py. KEPT maps a test to the number of its cases that `make test` runs, and a file to the number of
its tests, spread evenly; 0 means that only `make test-all` runs it. CI runs `make test-all`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

KEPT: Final[Mapping[str, int]] = {
    # the real process in real time
    "tests/faults/test_faults.py::test_silent_pod_watch_terminates_no_running_pod": 0,
    "tests/faults/test_faults.py::test_controller_recovers_from_faults_of_single_calls": 0,
    "tests/faults/test_faults.py::test_clock_offset_causes_no_additional_launch": 0,
    "tests/faults/test_faults.py::test_paused_leader_writes_nothing_to_the_cloud_after_another_replica_leads": 0,
    "tests/faults/test_faults.py::test_controller_recovers_from_kills_at_random_writes": 0,
    "tests/faults/test_faults.py::test_judge_reports_a_node_that_is_launched_next_to_a_free_slot": 0,
    "tests/contract/test_run_clocks.py::test_date_header_of_ec2_deletes_no_claim": 0,
    "tests/contract/test_run_clocks.py::test_date_header_of_the_api_server_deletes_no_claim": 0,
    "tests/contract/test_run_identity.py::test_denied_describe_cluster_drifts_no_node_and_launches_none": 0,
    "tests/contract/test_run.py::test_run_works_on_a_read_only_filesystem": 0,
    "tests/contract/test_run_ends.py::test_sigterm_does_not_wait_for_a_plan": 0,
    "tests/contract/test_rights.py::test_rbac_rules_allow_exactly_the_requests_of_the_controller": 0,
    "tests/contract/test_demo.py::test_an_ending_capacity_block_and_an_interrupted_spot_node_are_drained": 0,
    # days of simulated time
    "tests/scenario/test_noise.py::test_a_day_of_scaling_moves_no_pod_twice_and_launches_no_unused_node": 0,
    "tests/scenario/test_reservation_capacity_type.py::test_on_demand_node_never_enters_an_open_reservation_that_no_class_selects": 0,
    "tests/scenario/test_reservations.py::test_reservation_that_no_pod_needs_stays_empty_for_a_day": 0,
    "tests/scenario/test_leftovers.py::test_class_changes_leave_a_bounded_number_of_templates_and_profiles": 0,
    "tests/scenario/test_rolling_choices.py::test_rolling_continues_after_another_account_takes_and_returns_a_slot": 0,
    # random seeds
    "tests/scenario/test_fault_simulation.py::test_all_pods_run_and_nothing_is_left_over_after_random_faults": 1,
    "tests/scenario/test_fault_simulation.py::test_long_runs_with_reservations_break_no_rule": 1,
    "tests/scenario/test_fault_simulation.py::test_runs_with_many_restarts_break_no_rule": 1,
    "tests/scenario/test_fault_simulation.py::test_gangs_and_requests_are_whole_or_not_there_after_random_faults": 1,
    "tests/fuzz/test_fuzz.py::test_plans_of_random_scenarios_violate_no_rule": 0,
    "tests/fuzz/test_samples.py::test_plans_violate_no_rule_when_packings_are_compared_on_a_sample": 0,
    "tests/fuzz/test_damage.py::test_checker_finds_damage_in_every_plan": 1,
    "tests/property/test_oracle.py::test_plan_places_every_pod_that_fits_and_uses_every_slot_that_saves_money": 2,
    "tests/property/test_aws_launching.py::test_every_claim_gets_one_instance_and_every_instance_one_claim": 4,
    "tests/unit/test_runtime_lease.py::test_there_are_never_two_leaders_and_finally_one": 3,
    # every point at which the process can crash
    "tests/scenario/test_crashes.py::test_restart_recovers_from_a_crash_at_any_write": 3,
    "tests/scenario/test_disruption_crashes.py::test_restart_recovers_from_a_crash_at_any_write_of_a_replacement": 5,
    "tests/scenario/test_gang_faults.py::test_gang_runs_whole_after_random_faults": 8,
    "tests/scenario/test_gang_crashes.py::test_gang_is_launched_once_and_whole_after_a_crash_at_any_write": 8,
    "tests/scenario/test_gang_crashes.py::test_crash_while_a_gang_is_rolled_back_leaves_nothing_of_it": 2,
    "tests/scenario/test_gang_failures.py::test_gang_runs_whole_after_a_crash_while_it_was_rolled_back": 2,
    "tests/scenario/test_race_crashes.py::test_restart_recovers_from_a_crash_at_any_write_after_a_lost_race": 3,
    "tests/scenario/test_repair.py::test_restart_recovers_from_a_crash_at_any_write_of_a_repair": 2,
    "tests/scenario/test_missing_nodes.py::test_crash_at_any_write_does_not_change_the_outcome": 2,
    "tests/scenario/test_rolling.py::test_crash_at_any_write_does_not_extend_the_wait_for_a_slot": 1,
    "tests/scenario/test_capacity_blocks.py::test_drain_completes_after_a_crash_at_any_write": 2,
    "tests/scenario/test_leader_change.py::test_new_leader_replaces_a_disconnected_one_without_duplicate_launches": 2,
    # every kind of fault
    "tests/scenario/test_ec2_and_api_faults.py::test_cluster_recovers_after_ec2_throttles_calls_or_loses_answers": 3,
    "tests/scenario/test_ec2_and_api_faults.py::test_cluster_recovers_after_faults_of_the_api_server": 2,
    "tests/contract/test_damaged_aws.py::test_damaged_answers_raise_only_errors_of_holdfast": 6,
    "tests/contract/test_damaged_wire.py::test_damaged_answers_of_aws_raise_only_errors_of_holdfast": 8,
    "tests/scenario/test_identity.py::test_unknown_identity_launches_nothing_and_recovers_without_a_restart": 2,
    "tests/scenario/test_identity.py::test_unknown_identity_after_a_restart_does_not_disrupt_running_nodes": 2,
    "tests/fuzz/test_fuzz.py::test_plans_of_regression_seeds_violate_no_rule": 8,
    "tests/contract/test_doctor.py::test_broken_set_up_has_exactly_its_result": 8,
    "tests/contract/test_doctor.py::test_healthy_set_up_has_no_finding": 2,
    # files with many tests that take seconds each
    "tests/contract/test_demo.py": 2,
    "tests/contract/test_demo_screen.py": 1,
    "tests/contract/test_demo_story.py": 2,
    "tests/contract/test_run.py": 3,
    "tests/contract/test_rights.py": 1,
    "tests/contract/test_sandbox.py": 5,
    "tests/contract/test_aws_discovery_catalog.py": 8,
    "tests/contract/test_aws_launch_once.py": 8,
    "tests/contract/test_aws_launch_reservations.py": 8,
    "tests/contract/test_aws_probes.py": 4,
    "tests/contract/test_damaged_kube.py": 3,
    "tests/contract/test_run_ends.py": 2,
    "tests/contract/test_sim_aws_fronts.py": 10,
    "tests/fuzz/test_hostile_objects.py": 2,
    "tests/scenario/test_capacity_blocks.py": 10,
    "tests/scenario/test_claim_stages.py": 8,
    "tests/scenario/test_clocks.py": 5,
    "tests/scenario/test_consolidation_goals.py": 3,
    "tests/scenario/test_disruption_commands.py": 5,
    "tests/scenario/test_disruption_reports.py": 4,
    "tests/scenario/test_identity.py": 6,
    "tests/scenario/test_instance_status.py": 4,
    "tests/scenario/test_leftovers.py": 1,
    "tests/scenario/test_missing_nodes.py": 6,
    "tests/scenario/test_moves_that_pay.py": 3,
    "tests/scenario/test_nodeclass.py": 8,
    "tests/scenario/test_plans.py": 30,
    "tests/scenario/test_pods_that_never_bind.py": 3,
    "tests/scenario/test_provisioning.py": 8,
    "tests/scenario/test_provisioning_ends.py": 5,
    "tests/scenario/test_provisioning_races.py": 4,
    "tests/scenario/test_repair.py": 4,
    "tests/scenario/test_reservation_capacity_type.py": 5,
    "tests/scenario/test_reservations.py": 8,
    "tests/scenario/test_rolling.py": 4,
    "tests/scenario/test_slots_of_deleted_nodes.py": 5,
    "tests/scenario/test_slots_through_a_day.py": 0,
    "tests/scenario/test_stale_views.py": 4,
    "tests/scenario/test_unreadable.py": 3,
    "tests/scenario/test_ec2_and_api_faults.py": 5,
    # `make check` runs these
    "tests/unit/test_tidy.py": 0,
    "tests/unit/test_sim_fidelity.py": 0,
    # plans with both kernels
    "tests/fuzz/test_compiled.py::test_compiled_kernel_gives_the_same_plan": 4,
}


def left_to_test_all(cases: Sequence[T], kept: int) -> Iterable[T]:
    """The cases that `make test` skips. It runs `kept` cases, spread evenly and including the first."""
    chosen = {index * len(cases) // kept for index in range(kept)}
    return (case for index, case in enumerate(cases) if index not in chosen)
