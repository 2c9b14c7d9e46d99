"""Where each metric family comes from on each platform, for docs/metrics.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploy.generator.metric_sources import alibaba_pai, aws_sagemaker, huawei_modelarts
from trainfleet_exporter.providers.alibaba_pai.metrics import FAMILIES
from trainfleet_exporter.providers.huawei_modelarts.metrics import READINGS

SOURCES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "alibaba_pai": alibaba_pai.SOURCES,
    "aws_sagemaker": aws_sagemaker.SOURCES,
    "huawei_modelarts": huawei_modelarts.SOURCES,
}
"""By platform and family: one text for each API, with the fields of the values."""
UNPROVEN = "name or unit at the source unproven"
_USAGE = (*FAMILIES.values(), *(family for reading in READINGS for family in reading.families))
EXPERIMENTAL: Mapping[str, str] = {
    **{f"trainfleet_{each.suffix}": UNPROVEN for each in _USAGE if not each.is_ratio or each.profile},
    "trainfleet_job_holds_resources": "unproven whether a starting job already holds accelerators",
    "trainfleet_job_requested_memory_bytes": "unit unproven for values without a unit and for machine types",
    "trainfleet_pool_queued_accelerators": "unproven which workloads count as queued",
    "trainfleet_pool_user_accelerators": "unproven whether users add up to the allocated accelerators",
    "trainfleet_job_faults_total": "codes of restarts undocumented",
    "trainfleet_job_recoveries_total": "codes of restarts undocumented",
    "trainfleet_node_faults_total": "codes of restarts undocumented",
}
"""By family, what is unproven about its values."""
