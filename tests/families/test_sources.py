"""The sources of each family in docs/metrics.md, and HELP, which has none."""

from __future__ import annotations

import re

import pytest
from deploy.generator.metric_sources import EXPERIMENTAL
from deploy.generator.metric_sources import SOURCES as METRIC_SOURCES

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.registry import installed_platforms

WORDS = {"alibaba_pai": "PAI", "aws_sagemaker": "SageMaker", "huawei_modelarts": "ModelArts"}
MEANING = {family.name: family.help for family in FAMILIES}
SOURCES_OF = {
    name: "; or ".join(text for platform in WORDS for text in METRIC_SOURCES[platform].get(name, ()))
    for name in MEANING
}

# Marked E in the contract, or measured in a unit that it lists as taken for want of a stated one.
MARKED = re.compile(
    r"trainfleet_(job_holds_resources|job_requested_memory_bytes|(job|pod)_(network|disk)_\w+_bytes_per_second"
    r"|(job|pod|pool)_(cpu_usage_cores|(accelerator_)?memory_usage_bytes|accelerator_memory_capacity_bytes)"
    r"|(job|pod|pool)_accelerator_power_watts|device_power_watts|pool_queued_accelerators|pool_user_accelerators"
    r"|device_(healthy|temperature_celsius)"
    r"|(job|pod|pool|device)_(sm_utilization|(tensor|dram)_active)_ratio"
    r"|(job|pod|device)_(tensor_flops|(nvlink|pcie)_(receive|transmit)_bytes)_per_second"
    r"|(job|node)_faults_total|job_recoveries_total)"
)


def test_every_installed_platform_has_sources() -> None:
    assert METRIC_SOURCES.keys() == installed_platforms().keys()


@pytest.mark.parametrize(("platform", "word"), WORDS.items())
def test_a_cloud_names_families_of_the_table_and_itself(platform: str, word: str) -> None:
    by_family = METRIC_SOURCES[platform]
    assert by_family.keys() <= MEANING.keys()
    for name, sources in by_family.items():
        assert sources, name
        for source in sources:
            assert re.match(rf"the config file$|a constant|{word}\b", source), name


@pytest.mark.parametrize("name", MEANING)
def test_every_family_has_a_source(name: str) -> None:
    assert SOURCES_OF[name]
    assert (name in EXPERIMENTAL) == bool(MARKED.fullmatch(name))
