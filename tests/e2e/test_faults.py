"""A row of the fault matrix on the whole process, all its faults at once: a provider for each, and one that is well."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.processes import ExporterProcess, eventually, running_clouds, running_exporter
from tests.faults.columns import COLUMNS, KEPT, Column
from tests.faults.judges import nothing_else
from tests.faults.operations import SECRETS
from tests.faults.page import Key, Page
from tests.support.planted import hits
from trainfleet_simulator import KINDS, Fault, Simulator
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

OPERATION = "ListQuotas"
WELL = "well"
CONFIG = """
global: {poll_interval: 8s, poll_timeout: 7s, keep_last_good_polls: 1}
providers:
"""
PROVIDER = f"""
  - name: '{{name}}'
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {{{{access_key_id: {ACCESS_KEY_ID}, access_key_secret: {ACCESS_KEY_SECRET}}}}}
    endpoints: {{{{dlc: {{url}}, paistudio: {{url}}, aiworkspace: {{url}}, cloudmonitor: {{url}}}}}}
    limits: {{{{requests_per_second: 100}}}}
    collectors:
      job_counts: {{{{enabled: false}}}}
      jobs: {{{{enabled: false}}}}
      pods: {{{{enabled: false}}}}
      usage: {{{{enabled: false}}}}
      pools: {{{{}}}}
      pool_workloads: {{{{enabled: false}}}}
"""
BY_KIND: Mapping[str, Column] = {column.kind: column for column in COLUMNS if column.kind and not column.needs}
MOST_MEMORY = 512 * 2**20
"""Bytes that it may take to be answered with 50 MB and with a bomb, by some at a time."""


def _page(exporter: ExporterProcess) -> Page:
    answer = exporter.metrics()
    assert answer.status_code == 200
    return Page(answer.text)


def _shown(page: Page, provider: str) -> dict[Key, float]:
    return {key: value for key, value in page.shown.items() if ("provider", provider) in key[1]}


def _successes(page: Page) -> dict[str, float]:
    name = "trainfleet_exporter_collector_success"
    return {labels["provider"]: value for labels, value in page.of(name, collector="pools")}


def _resident(exporter: ExporterProcess) -> int:
    status = Path(f"/proc/{exporter.process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.fixture
def clouds() -> Iterator[dict[str, tuple[Simulator, str]]]:
    assert BY_KIND.keys() == KINDS.keys()
    simulators = {name: Simulator(seed=1, population=1, still=True) for name in (*BY_KIND, WELL)}
    with running_clouds(list(simulators.values())) as addresses:
        yield dict(zip(simulators, zip(simulators.values(), addresses, strict=True), strict=True))


def test_a_process_under_every_fault_at_once(clouds: dict[str, tuple[Simulator, str]], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    text = "".join(PROVIDER.format(name=name, url=url) for name, (_, url) in clouds.items())
    config.write_text(CONFIG + text, encoding="utf-8")
    failing = {kind for kind, column in BY_KIND.items() if column.ends == (KEPT,)}
    with running_exporter([f"--config.file={config}", "--log.level=debug"], tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        before = eventually(lambda: all(_successes(_page(exporter)).values()) and _page(exporter), what="good polls")
        for kind in BY_KIND:
            clouds[kind][0].faults.add(Fault(match={"operation": OPERATION}, kind=kind))

        def all_fail() -> Page | None:
            page = _page(exporter)
            assert nothing_else(_only(page, failing | {WELL}), before) == []
            gone = not any(_shown(page, kind) and _has_pools(page, kind) for kind in failing)
            return page if gone and not any(_successes(page)[kind] for kind in failing) else None

        during = eventually(all_fail, what="every fault to be seen, and what was shown before to go")
        assert _shown(during, WELL) == _shown(before, WELL)
        assert _successes(during)[WELL] == 1
        for kind in failing:
            outcomes = {
                labels["outcome"]
                for labels, _ in during.of("trainfleet_exporter_api_requests_total", provider=kind, operation=OPERATION)
            }
            assert outcomes & set(BY_KIND[kind].outcomes), kind
        outputs = {path: exporter.client.get(path).text for path in ("/", "/metrics", "/config", "/-/ready")}
        for simulator, _ in clouds.values():
            simulator.faults.clear()
        eventually(lambda: _page(exporter).shown == before.shown, what="everything to be as before")
        assert all(_successes(_page(exporter)).values())
        assert _resident(exporter) < MOST_MEMORY
        assert exporter.end(signal=signal.SIGTERM) == 0
        log = exporter.log
    assert "Traceback" not in log
    for kind in failing:
        lines = [line for line in log.splitlines() if f"provider={kind} " in line and "level=warn" in line]
        assert 1 <= len(lines) <= 3, kind
    assert hits({**outputs, "log": log}, SECRETS) == []


def _only(page: Page, providers: set[str]) -> Page:
    """What is shown of some providers."""
    found = Page("")
    found.shown = {key: value for key, value in page.shown.items() if dict(key[1])["provider"] in providers}
    return found


def _has_pools(page: Page, provider: str) -> bool:
    return any(key[0].startswith("trainfleet_pool_") for key in _shown(page, provider))
