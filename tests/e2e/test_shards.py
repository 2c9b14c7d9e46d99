"""Exporters as processes share the accounts of simulated clouds; one more is alone and polls all of them."""

from __future__ import annotations

import contextlib
import math
import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.e2e.processes import ExporterProcess, eventually, running_cloud, running_exporter
from trainfleet_conformance.page import DATED
from trainfleet_simulator import Simulator

_ACCOUNTS, _SHARDS = 2, 3
_INTERVAL, _TIMEOUT = "15s", "14s"
_POLLS = 2
"""Good polls of each collector that are counted."""
_POLL = re.compile(r'msg="poll ended" provider=(\S+) collector=(\S+) result=success .*?calls=(\d+)')


def _config(simulator: Simulator, url: str) -> str:
    """Give each cloud some accounts, and all collectors one interval, so that calls of a poll add up."""
    head, *providers = re.split(r"(?m)^  - name: ", simulator.config_yaml(url))
    providers = [
        f"  - name: {name}-{number}\n{rest}"
        for name, rest in (provider.split("\n", 1) for provider in providers)
        for number in range(_ACCOUNTS)
    ]
    text = re.sub(r"interval: \w+", f"interval: {_INTERVAL}", head + "".join(providers))
    return re.sub(r"poll_timeout: \w+", f"poll_timeout: {_TIMEOUT}", text)


def _calls(exporter: ExporterProcess) -> dict[tuple[str, str], list[int]]:
    """Return the calls of each good poll, by provider and collector."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for provider, collector, calls in _POLL.findall(exporter.log):
        found[provider, collector].append(int(calls))
    return found


def _calls_of_an_interval(exporters: Sequence[ExporterProcess]) -> list[float]:
    """Wait for some polls of each collector; by exporter, the mean calls of all collectors together."""
    before = [{key: len(polls) for key, polls in _calls(exporter).items()} for exporter in exporters]
    for count in range(1, _POLLS + 1):
        for exporter, earlier in zip(exporters, before, strict=True):
            eventually(
                lambda exporter=exporter, earlier=earlier, count=count: all(  # type: ignore[misc]
                    len(polls) >= earlier[key] + count for key, polls in _calls(exporter).items()
                ),
                what="another poll of each collector",
            )
    return [
        math.fsum(sum(polls[earlier[key] : earlier[key] + _POLLS]) / _POLLS for key, polls in _calls(exporter).items())
        for exporter, earlier in zip(exporters, before, strict=True)
    ]


_OWN = re.compile(r"(trainfleet_exporter_|process_|python_|#)")
"""Series of an exporter about itself. The labels of a scrape distinguish those of several exporters."""


def _fleet_samples(page: str) -> dict[str, float]:
    """Return the samples about clouds on a page, by series."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if not _OWN.match(line):
            series, _, value = line.rpartition(" ")
            assert series not in found, f"twice on one page: {series}"
            found[series] = float(value)
    return found


def _together(pages: Iterable[dict[str, float]]) -> dict[str, float]:
    """Join the samples of all pages. A series must be on only one of them."""
    found: dict[str, float] = {}
    for page in pages:
        twice = found.keys() & page.keys()
        assert not twice, f"{len(twice)} series are shown by two shards, such as {sorted(twice)[:5]}"
        found |= page
    return found


def _undated(samples: dict[str, float]) -> dict[str, float]:
    """Blank the values that say when something was read: nothing else changes in a cloud that stands still."""
    return {series: 0.0 if series.startswith(tuple(DATED)) else value for series, value in samples.items()}


@pytest.mark.long
def test_shards_show_what_one_exporter_shows(tmp_path: Path) -> None:
    with running_cloud(seed=3, clouds=("pai", "modelarts", "sagemaker"), population=30, still=True) as (cloud, url):
        config = tmp_path / "config.yaml"
        config.write_text(_config(cloud, url), encoding="utf-8")
        with contextlib.ExitStack() as stack:
            running: list[ExporterProcess] = []

            def start(*flags: str) -> ExporterProcess:
                arguments = [f"--config.file={config}", "--log.level=debug", *flags]
                running.append(stack.enter_context(running_exporter(arguments, tmp_path / f"{len(running)}.log")))
                return running[-1]

            alone = start()
            shards = [start(f"--shard=exporter-{n}", f"--total-shards={_SHARDS}") for n in range(_SHARDS)]
            for exporter in running:
                exporter.wait_until_ready()

            def same() -> bool:
                whole = _undated(_fleet_samples(alone.metrics().text))
                return len(whole) > 3_000 and whole == _undated(
                    _together(_fleet_samples(shard.metrics().text) for shard in shards)
                )

            eventually(same, what="the shards to show what one exporter shows")
            made, *shared = _calls_of_an_interval(running)
            assert 0.98 * made <= math.fsum(shared) <= 1.02 * made
            assert same()
            for number, shard in enumerate(shards):
                page = shard.metrics().text
                assert f"\ntrainfleet_exporter_shard_ordinal {number}.0\n" in page
                assert f"\ntrainfleet_exporter_total_shards {_SHARDS}.0\n" in page
            for exporter in running:
                assert exporter.end(signal=signal.SIGTERM) == 0
