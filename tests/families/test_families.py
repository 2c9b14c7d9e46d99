"""The table of families against the public contract, and each family's rules."""

from __future__ import annotations

from tests.page.examples import EXAMPLES
from trainfleet_exporter.families import FAMILIES, KEYS, MetricFamily
from trainfleet_exporter.model import Accelerators, HeldTime, Job, JobPods, PoolQueue, RoleCount

# The contract's table as far as it is made from the model: family -> labels after `provider`.
CONTRACT = """
trainfleet_provider_info                            platform region project_id
trainfleet_workspace_info                           workspace_id workspace_name
trainfleet_jobs                                     workspace_id status platform_status
trainfleet_jobs_finished_total                      workspace_id status
trainfleet_job_info                                 job_id job_name job_type workspace_id pool_id user_id user_name \
                                                    resource_type payment_type
trainfleet_job_labels                               job_id label_<tag>
trainfleet_job_status                               job_id status
trainfleet_job_platform_status                      job_id platform_status
trainfleet_job_status_reason                        job_id reason
trainfleet_job_holds_resources                      job_id
trainfleet_job_queue_position                       job_id
trainfleet_job_priority                             job_id
trainfleet_job_created_timestamp_seconds            job_id
trainfleet_job_submitted_timestamp_seconds          job_id
trainfleet_job_started_timestamp_seconds            job_id
trainfleet_job_finished_timestamp_seconds           job_id
trainfleet_job_duration_seconds                     job_id
trainfleet_job_restarts_total                       job_id
trainfleet_job_restarts_allowed                     job_id
trainfleet_job_requested_cpu_cores                  job_id
trainfleet_job_requested_memory_bytes               job_id
trainfleet_job_requested_nodes                      job_id
trainfleet_job_requested_accelerators               job_id accelerator accelerator_model
trainfleet_job_requested_pods                       job_id role
trainfleet_job_replaced_pods                        job_id role
trainfleet_job_pods                                 job_id role status
trainfleet_pod_info                                 job_id pod_id role node_name pod_ip
trainfleet_pod_status                               job_id pod_id status
trainfleet_pod_evicted                              job_id pod_id
trainfleet_pod_evictions_total                      job_id pod_id
trainfleet_pod_created_timestamp_seconds            job_id pod_id
trainfleet_pod_started_timestamp_seconds            job_id pod_id
trainfleet_pod_finished_timestamp_seconds           job_id pod_id
trainfleet_pool_info                                pool_id pool_name resource_type parent_pool_id
trainfleet_pool_status                              pool_id status
trainfleet_pool_nodes                               pool_id status
trainfleet_pool_allocated_nodes                     pool_id
trainfleet_pool_empty_nodes                         pool_id
trainfleet_pool_queued_accelerators                 pool_id accelerator
trainfleet_pool_capacity_cpu_cores                  pool_id
trainfleet_pool_capacity_memory_bytes               pool_id
trainfleet_pool_allocated_cpu_cores                 pool_id
trainfleet_pool_allocated_memory_bytes              pool_id
trainfleet_pool_capacity_accelerators               pool_id accelerator accelerator_model
trainfleet_pool_allocated_accelerators              pool_id accelerator accelerator_model
trainfleet_pool_workloads                           pool_id workload_type status platform_status
trainfleet_pool_user_accelerators                   pool_id user_id user_name workload_type accelerator
trainfleet_node_info                                pool_id node_name node_type node_ip
trainfleet_node_status                              pool_id node_name status
trainfleet_node_status_reason                       pool_id node_name reason
trainfleet_node_expiry_timestamp_seconds            pool_id node_name
trainfleet_node_capacity_cpu_cores                  pool_id node_name
trainfleet_node_capacity_memory_bytes               pool_id node_name
trainfleet_node_allocated_cpu_cores                 pool_id node_name
trainfleet_node_allocated_memory_bytes              pool_id node_name
trainfleet_node_capacity_accelerators               pool_id node_name accelerator accelerator_model
trainfleet_node_allocated_accelerators              pool_id node_name accelerator accelerator_model
trainfleet_node_maintenance_timestamp_seconds       pool_id node_name event_id kind state
trainfleet_provider_job_quota
trainfleet_provider_job_quota_used
trainfleet_job_cpu_utilization_ratio                job_id
trainfleet_job_memory_utilization_ratio             job_id
trainfleet_job_accelerator_utilization_ratio        job_id accelerator
trainfleet_job_accelerator_memory_utilization_ratio job_id accelerator
trainfleet_job_network_receive_bytes_per_second     job_id
trainfleet_job_network_transmit_bytes_per_second    job_id
trainfleet_job_disk_read_bytes_per_second           job_id
trainfleet_job_disk_write_bytes_per_second          job_id
trainfleet_job_cpu_usage_cores                      job_id
trainfleet_job_memory_usage_bytes                   job_id
trainfleet_job_accelerator_memory_usage_bytes       job_id
trainfleet_job_accelerator_memory_capacity_bytes    job_id
trainfleet_job_accelerator_power_watts              job_id
trainfleet_job_sm_utilization_ratio                 job_id accelerator
trainfleet_job_tensor_active_ratio                  job_id accelerator
trainfleet_job_dram_active_ratio                    job_id accelerator
trainfleet_job_tensor_flops_per_second              job_id accelerator
trainfleet_job_nvlink_receive_bytes_per_second      job_id accelerator
trainfleet_job_nvlink_transmit_bytes_per_second     job_id accelerator
trainfleet_job_pcie_receive_bytes_per_second        job_id accelerator
trainfleet_job_pcie_transmit_bytes_per_second       job_id accelerator
trainfleet_pod_cpu_utilization_ratio                job_id pod_id
trainfleet_pod_memory_utilization_ratio             job_id pod_id
trainfleet_pod_accelerator_utilization_ratio        job_id pod_id accelerator
trainfleet_pod_accelerator_memory_utilization_ratio job_id pod_id accelerator
trainfleet_pod_network_receive_bytes_per_second     job_id pod_id
trainfleet_pod_network_transmit_bytes_per_second    job_id pod_id
trainfleet_pod_disk_read_bytes_per_second           job_id pod_id
trainfleet_pod_disk_write_bytes_per_second          job_id pod_id
trainfleet_pod_cpu_usage_cores                      job_id pod_id
trainfleet_pod_memory_usage_bytes                   job_id pod_id
trainfleet_pod_accelerator_memory_usage_bytes       job_id pod_id
trainfleet_pod_accelerator_memory_capacity_bytes    job_id pod_id
trainfleet_pod_accelerator_power_watts              job_id pod_id
trainfleet_pod_sm_utilization_ratio                 job_id pod_id accelerator
trainfleet_pod_tensor_active_ratio                  job_id pod_id accelerator
trainfleet_pod_dram_active_ratio                    job_id pod_id accelerator
trainfleet_pod_tensor_flops_per_second              job_id pod_id accelerator
trainfleet_pod_nvlink_receive_bytes_per_second      job_id pod_id accelerator
trainfleet_pod_nvlink_transmit_bytes_per_second     job_id pod_id accelerator
trainfleet_pod_pcie_receive_bytes_per_second        job_id pod_id accelerator
trainfleet_pod_pcie_transmit_bytes_per_second       job_id pod_id accelerator
trainfleet_pool_cpu_utilization_ratio               pool_id
trainfleet_pool_memory_utilization_ratio            pool_id
trainfleet_pool_accelerator_utilization_ratio       pool_id accelerator
trainfleet_pool_accelerator_memory_utilization_ratio pool_id accelerator
trainfleet_pool_cpu_usage_cores                     pool_id
trainfleet_pool_memory_usage_bytes                  pool_id
trainfleet_pool_accelerator_memory_usage_bytes      pool_id
trainfleet_pool_accelerator_memory_capacity_bytes   pool_id
trainfleet_pool_accelerator_power_watts             pool_id
trainfleet_pool_sm_utilization_ratio                pool_id accelerator
trainfleet_pool_tensor_active_ratio                 pool_id accelerator
trainfleet_pool_dram_active_ratio                   pool_id accelerator
trainfleet_pool_disk_utilization_ratio              pool_id
trainfleet_pool_disk_capacity_bytes                 pool_id
trainfleet_pool_disk_available_bytes                pool_id
trainfleet_device_utilization_ratio                 job_id pod_id device accelerator
trainfleet_device_memory_utilization_ratio          job_id pod_id device accelerator
trainfleet_device_power_watts                       job_id pod_id device accelerator
trainfleet_device_sm_utilization_ratio              job_id pod_id device accelerator
trainfleet_device_tensor_active_ratio               job_id pod_id device accelerator
trainfleet_device_dram_active_ratio                 job_id pod_id device accelerator
trainfleet_device_tensor_flops_per_second           job_id pod_id device accelerator
trainfleet_device_nvlink_receive_bytes_per_second   job_id pod_id device accelerator
trainfleet_device_nvlink_transmit_bytes_per_second  job_id pod_id device accelerator
trainfleet_device_pcie_receive_bytes_per_second     job_id pod_id device accelerator
trainfleet_device_pcie_transmit_bytes_per_second    job_id pod_id device accelerator
trainfleet_device_healthy                           job_id pod_id device accelerator
trainfleet_device_temperature_celsius               job_id pod_id device accelerator
trainfleet_job_usage_info                           job_id source
trainfleet_job_usage_timestamp_seconds              job_id
trainfleet_job_phase_seconds                        job_id phase
trainfleet_job_faults_total                         job_id cause platform_cause
trainfleet_job_recoveries_total                     job_id strategy result
trainfleet_job_recovery_seconds_total               job_id
trainfleet_node_faults_total                        pool_id node_name cause
trainfleet_job_queue_wait_seconds                   pool_id
trainfleet_job_startup_seconds                      pool_id
trainfleet_job_pending_reason                       job_id reason
trainfleet_pod_exit_code                            job_id pod_id
"""

FULL = {type(examples[0]): examples[0] for examples in EXAMPLES.values()}


def labels_of(family: MetricFamily) -> list[str]:
    keys, _ = KEYS[family.of]
    return [*keys, *(("label_<tag>",) if family.labels is None else family.labels)]


def test_names_and_labels_are_those_of_the_contract_in_its_order() -> None:
    table = [line.split() for line in CONTRACT.strip().splitlines()]
    assert [[family.name, *labels_of(family)] for family in FAMILIES] == table


def test_keys_cover_every_class_that_a_family_reads() -> None:
    assert {family.of for family in FAMILIES} == set(FULL)
    assert set(KEYS) == {*FULL, HeldTime}  # only the status page shows it
    for of, (names, read) in ((of, KEYS[of]) for of in FULL):
        assert len(read(FULL[of])) == len(names)


def test_entries_that_share_their_labels_are_added_up() -> None:
    # Two node groups of one accelerator model are one series: the same series twice would break the page.
    job = Job(job_id="a", accelerators=(Accelerators("gpu", "A10", 8), Accelerators("gpu", "A10", 4)))
    pods = JobPods(job_id="a", requested=(RoleCount("Worker", 2), RoleCount("Worker", 3), RoleCount("PS", 1)))
    queue = PoolQueue("a", (Accelerators("gpu", "A10", 8), Accelerators("gpu", "L20", 0.5), Accelerators("npu", "", 0)))
    read = {family.name: family.read for family in FAMILIES}
    assert list(read["trainfleet_job_requested_accelerators"](job)) == [(("gpu", "A10"), 12)]
    assert list(read["trainfleet_job_requested_pods"](pods)) == [(("Worker",), 5), (("PS",), 1)]
    assert list(read["trainfleet_pool_queued_accelerators"](queue)) == [(("gpu",), 8.5), (("npu",), 0)]
