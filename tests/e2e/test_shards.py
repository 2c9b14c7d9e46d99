"""Four exporters as processes of their own share the accounts of simulated clouds; a fifth is alone."""

from __future__ import annotations

import contextlib
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.processes import ExporterProcess, eventually, running_cloud, running_exporter
from tests.support.sharded import fleet_samples, fleet_yaml, together
from trainfleet_conformance.page import DATED

_SHARDS = 4
_ACCOUNTS = 2
_ROUNDS = 15
"""So many polls of the quickest collectors are counted: until other shards have looked at lists again."""
_MINUTES = 4
_QUICK = "global: {poll_interval: 4s, poll_timeout: 3s}\n"


def _calls(exporter: ExporterProcess) -> float:
    return sum(exporter.samples("trainfleet_exporter_api_requests_total").values())


def _undated(samples: dict[str, float]) -> dict[str, float]:
    """With no value for what says when it was read: nothing else moves in a cloud that stands still."""
    return {series: 0.0 if series.startswith(tuple(DATED)) else value for series, value in samples.items()}


def _workspace_lists(exporter: ExporterProcess) -> float:
    samples = exporter.samples("trainfleet_exporter_api_requests_total")
    return sum(count for labels, count in samples.items() if 'operation="ListWorkspaces"' in labels) // (2 * _ACCOUNTS)


def _wait_for_a_poll(exporter: ExporterProcess) -> None:
    before = _workspace_lists(exporter)
    eventually(lambda: _workspace_lists(exporter) > before, what="another poll")


@pytest.mark.long
def test_four_processes_show_what_one_shows_with_as_many_calls(tmp_path: Path) -> None:
    with running_cloud(seed=3, clouds=("pai", "modelarts"), still=True) as (simulator, url):
        config = tmp_path / "config.yaml"
        # All intervals a fifteenth of the defaults.
        fast = "{job_counts: {interval: 20s}, usage: {interval: 8s}, nodes: {enabled: true, interval: 20s}}"
        text = fleet_yaml(simulator, url, _ACCOUNTS)
        text, changed = re.subn(r"collectors:\n +nodes: \{enabled: true\}", f"collectors: {fast}", text)
        assert changed == 2 * _ACCOUNTS
        text = re.sub(r"(platform: alibaba_pai\n(?:.*\n)*?.*collectors: )\{", r"\1{pods: {interval: 20s}, ", text)
        config.write_text(_QUICK + text, encoding="utf-8")
        with contextlib.ExitStack() as stack:

            def start(*flags: str) -> ExporterProcess:
                log = tmp_path / f"{len(running)}.log"
                found = stack.enter_context(running_exporter([f"--config.file={config}", *flags], log))
                running.append(found)
                return found

            running: list[ExporterProcess] = []
            alone = start()
            shards = [start(f"--shard=exporter-{n}", f"--total-shards={_SHARDS}") for n in range(_SHARDS)]
            for exporter in running:
                exporter.wait_until_ready()

            def compare() -> bool:
                whole = fleet_samples(alone.metrics().text)
                union = together(fleet_samples(shard.metrics().text) for shard in shards)
                return len(whole) > 5_000 and _undated(union) == _undated(whole)

            eventually(compare, what="the shards to show what one shows alone")
            before = [_calls(exporter) for exporter in running]
            made: list[float] = []
            # Where the machine is busy, one of them makes a poll of twenty seconds more than another within a minute:
            # over some minutes that comes out even.
            for _ in range(_MINUTES):
                for _ in range(_ROUNDS):
                    _wait_for_a_poll(alone)
                made = [_calls(exporter) - earlier for exporter, earlier in zip(running, before, strict=True)]
                if sum(made[1:]) <= 1.1 * made[0]:
                    break
            assert sum(made[1:]) <= 1.1 * made[0], made
            assert compare()
            ordinals = [shard.metrics().text for shard in shards]
            for number, page in enumerate(ordinals):
                assert f"\ntrainfleet_exporter_shard_ordinal {number}.0\n" in page
                assert f"\ntrainfleet_exporter_total_shards {_SHARDS}.0\n" in page
            for shard in shards:
                assert shard.end(signal=signal.SIGTERM) == 0
