"""The sources of each family in docs/metrics.md, and HELP, which has none."""

from __future__ import annotations

import re

import pytest
from deploy.generator.metric_sources import SOURCES as METRIC_SOURCES

from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.registry import installed_platforms

WORDS = {"alibaba_pai": "PAI", "aws_sagemaker": "SageMaker", "huawei_modelarts": "ModelArts"}
MEANING = {family.name: family.help for family in FAMILIES}
SOURCES_OF = {
    name: "; or ".join(text for platform in WORDS for text in METRIC_SOURCES[platform].get(name, ()))
    for name in MEANING
}


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
