"""Three exporters as processes of their own, with one lease in a file: one is killed, one is stopped and continues."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import httpx

from tests.e2e.processes import ExporterProcess, eventually, running_clouds, running_exporter
from trainfleet_simulator import Simulator


class _Site:
    """An exporter that has a cloud of its own, which counts its calls."""

    def __init__(self, exporter: ExporterProcess, cloud: str) -> None:
        self.exporter = exporter
        self.cloud = cloud

    @property
    def leads(self) -> bool:
        return "\ntrainfleet_exporter_leader 1.0\n" in self.exporter.metrics().text

    @property
    def calls(self) -> int:
        counts = httpx.get(f"{self.cloud}/truth", trust_env=False).json()["calls"]
        return sum(count for api in counts.values() for outcomes in api.values() for count in outcomes.values())


def test_a_killed_and_a_stopped_holder_are_replaced(tmp_path: Path) -> None:
    """Waits for two takeovers with the shipped durations, about 25 s."""
    lease = tmp_path / "lease"
    lease.mkdir()
    (lease / "1.1.").touch()  # released: the first start need not wait
    simulators = [Simulator(seed=3, clouds=("pai",)) for _ in range(3)]
    with running_clouds(simulators) as addresses, contextlib.ExitStack() as stack:
        sites = []
        for number, (simulator, url) in enumerate(zip(simulators, addresses, strict=True)):
            config = tmp_path / f"{number}.yaml"
            text = simulator.config_yaml(url).replace("poll_interval: 10s", "poll_interval: 2s")
            config.write_text(text.replace("poll_timeout: 8s", "poll_timeout: 1s"), encoding="utf-8")
            flags = [f"--config.file={config}", f"--lease=file:{lease}"]
            sites.append(_Site(stack.enter_context(running_exporter(flags, tmp_path / f"{number}.log")), url))
        eventually(lambda: any(site.leads for site in sites), what="a leader")
        (first,) = [site for site in sites if site.leads]
        others = [site for site in sites if site is not first]
        eventually(lambda: first.calls > 0, what="calls of the leader")
        for site in others:
            site.exporter.wait_until_ready()
        assert [site.calls for site in others] == [0, 0]

        killed = time.monotonic()
        first.exporter.end(signal=signal.SIGKILL)
        eventually(lambda: any(site.calls for site in others), what="calls of another exporter")
        blind = time.monotonic() - killed
        print(f"another exporter polls {blind:.1f} s after SIGKILL")
        assert blind < 15
        second, third = sorted(others, key=lambda site: -site.calls)
        assert third.calls == 0

        stopped = time.monotonic()
        second.exporter.process.send_signal(signal.SIGSTOP)
        eventually(lambda: third.calls > 0, what="calls of the third exporter")
        print(f"another exporter polls {time.monotonic() - stopped:.1f} s after SIGSTOP")
        before = second.calls
        second.exporter.process.send_signal(signal.SIGCONT)
        eventually(lambda: "lease lost" in second.exporter.log, what="the stopped exporter to notice")
        time.sleep(2.5)  # longer than an interval
        assert second.calls == before
        assert not second.leads
        assert third.leads
