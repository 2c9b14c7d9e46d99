"""The generated references are up to date and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from deploy.generator import docs, docs_config

from tests.docs.pages import prose
from trainfleet_exporter.config.schema import Config, Section, meanings
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.model import PoolStatus, Status
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.telemetry import DROP_REASONS


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    """Yield a section and its nested sections, without `usage.metrics`, which has a section for each family."""
    yield section
    for name, hint in get_type_hints(section, include_extras=True).items():
        for part in _parts(hint) if (section.__name__, name) != ("Usage", "metrics") else ():
            if isinstance(part, type) and issubclass(part, Section):
                yield from _sections(part)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


_CLEAR = ("enabled", "platform", "user_id", "job_type", "pool_id")
"""Keys whose names say what they mean."""
_MODELS: tuple[type[Section], ...] = (Config, *(platform.config for platform in installed_platforms().values()))
_SECTIONS = sorted({found for model in _MODELS for found in _sections(model)}, key=str)


@pytest.mark.parametrize("section", _SECTIONS, ids=lambda section: f"{section.__module__}.{section.__name__}")
def test_every_config_key_has_a_meaning_and_is_on_the_page(section: type[Section]) -> None:
    page = docs_config.reference()
    said = meanings(section)
    for key, field in section.model_fields.items():
        if key not in _CLEAR and not any(
            isinstance(part, type) and issubclass(part, Section) for part in _parts(field.annotation)
        ):
            assert said.get(key, "").endswith("."), f"{section.__name__}.{key}"
        names = rf"`(?:[a-z_0-9.]+\.)?{field.alias or key}(?:`|\[|\.)|#* `providers\[\]\.{key}`"
        assert re.search(names, page), f"{section.__name__}.{key} is not on the page"


def test_the_words_that_labels_have_are_all_on_the_page() -> None:
    page = prose(docs.DOCS / "metrics.md").partition(docs.BEGIN)[0]
    outcomes = {getattr(error, "outcome", "ok") for error in _leaves(CloudError)} | {"no_data"}
    outcomes -= {"lease"}  # outcomes of calls that the exporter does not send
    for word in (*Status, *PoolStatus, *DROP_REASONS, *outcomes):
        assert f"`{word}`" in page, word


def _leaves(error: type[CloudError]) -> Iterator[type[CloudError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _leaves(kind)


_TITLES = {"alibaba_pai": "Alibaba PAI", "aws_sagemaker": "AWS SageMaker", "huawei_modelarts": "Huawei ModelArts"}


def test_every_collector_is_documented_with_its_cost() -> None:
    page = (docs.DOCS / "collectors.md").read_text(encoding="utf-8")
    for name_of_platform, platform in installed_platforms().items():
        collectors = platform.config.model_fields["collectors"].default
        section = page.partition(f"\n## {_TITLES[name_of_platform]}\n")[2].partition("\n## ")[0]
        for name in type(collectors).model_fields:
            found = re.search(rf"^\| `{name}`( \(off\))?[^|]*\| ([^|]+) \| \d.*\|.*\|$", section, re.MULTILINE)
            assert found, name
            collector = getattr(collectors, name)
            assert bool(found[1]) == (not collector.enabled), name
            assert found[2].startswith(
                "`poll_interval`" if collector.interval is None else f"{collector.interval / 60:g} m"
            )
