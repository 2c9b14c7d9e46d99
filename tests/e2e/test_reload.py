"""Reloads of a whole process under load: each scrape is of the old config or of the new one, never of both."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import httpx

from tests.e2e.processes import ExporterProcess, eventually, running_cloud, running_exporter
from trainfleet_conformance.page import check

SCRAPES, RELOADS = 1000, 50
KEPT = "sim-kept"

_SAMPLE = re.compile(r'^(trainfleet_\w+)\{(?:[^{]*,)?provider="([^"]+)"')
_LABELS = re.compile(r'label_(\w+)="')


class Configs:
    """Config files that differ in what one scrape shows: providers, denied families, labels of jobs."""

    def __init__(self, url: str) -> None:
        self._url = url

    def good(self, number: int) -> str:
        """The first provider is in all of them, and unchanged from an even one to the next."""
        return (
            "global:\n"
            "  poll_interval: 5m\n"
            "  poll_timeout: 4m\n"  # the simulated cloud may be slow on a busy machine
            f"  metrics: {{job_labels: [{self.label(number)}], deny: [{self.denied(number)}]}}\n"
            "providers:\n" + "".join(map(self._provider, self.providers(number)))
        )

    @staticmethod
    def label(number: int) -> str:
        return "team" if number // 2 % 2 else "project"

    @staticmethod
    def denied(number: int) -> str:
        return "trainfleet_job_created_timestamp_seconds" if number // 2 % 2 else "trainfleet_job_priority"

    @staticmethod
    def providers(number: int) -> list[str]:
        """The set of the config with this number; each has a provider that no other one has."""
        return [KEPT, f"sim-{number}", *(["sim-odd"] if number % 2 else ["sim-even", "sim-even-too"])]

    def _provider(self, name: str) -> str:
        endpoints = ", ".join(f"{api}: {self._url}" for api in ("dlc", "paistudio", "aiworkspace", "cloudmonitor"))
        return (
            f"  - name: {name}\n    platform: alibaba_pai\n    region: cn-hangzhou\n"
            "    credentials: {access_key_id: LTAISIMULATOR, access_key_secret: simulated-secret}\n"
            f"    endpoints: {{{endpoints}}}\n"
            "    http: {connect_timeout: 4m, request_timeout: 4m}\n"
            "    limits: {requests_per_second: 200, concurrency: 8, monthly_calls: {cloudmonitor: 400000}}\n"
            "    workspaces: ['12345']\n"
            "    collectors:\n"
            + "".join(f"      {name}: {{enabled: false}}\n" for name in ("pods", "usage", "pools", "pool_workloads"))
        )


class Load(threading.Thread):
    """Scrapes one after the other, and what each of them showed."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.pages: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.failure: Exception | None = None
        self.over = threading.Event()
        self._url = url

    def has(self, scrapes: int) -> bool:
        return len(self.pages) >= scrapes or self.failure is not None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self._url, trust_env=False, timeout=30) as client:
                while len(self.pages) < SCRAPES or not self.over.is_set():
                    answer = client.get("/metrics")
                    self.statuses[answer.status_code] += 1
                    check(answer.text)
                    self.pages.append(answer.text)
                    self.over.wait(0.03)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is to fail by it
            self.failure = error


def _reload(exporter: ExporterProcess, number: int, *, by_signal: bool, good: bool) -> None:
    """Every second one by SIGHUP, which answers nothing but the log."""
    done, failed = exporter.log.count("msg=reloaded"), exporter.log.count("not reloaded")
    if by_signal:
        exporter.process.send_signal(signal.SIGHUP)
    else:
        answer = exporter.client.request("PUT" if number % 4 else "POST", "/-/reload")
        assert answer.status_code == (200 if good else 500), answer.text
        assert ('found "10 parsecs"; allowed: ' in answer.text) != good

    def over() -> bool:
        log = exporter.log
        return (log.count("msg=reloaded"), log.count("not reloaded")) == (done + good, failed + (not good))

    eventually(over, what=f"reload {number}")


def _open_files(exporter: ExporterProcess) -> int:
    folder = Path(f"/proc/{exporter.process.pid}/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def _seen(page: str) -> tuple[frozenset[str], dict[str, set[str]]]:
    """The providers of `trainfleet_provider_info`, and which providers each family has."""
    families: dict[str, set[str]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            families.setdefault(match[1], set()).add(match[2])
    return frozenset(families["trainfleet_provider_info"]), families


def _check(page: str, configs: dict[frozenset[str], int]) -> int:
    """The config that a scrape shows, all of it and nothing else."""
    shown, families = _seen(page)
    number = configs[shown]  # a set that no config has is half of two
    for family, providers in families.items():
        assert providers <= shown, (family, providers - shown)
    for whole in (
        "trainfleet_provider_up",
        "trainfleet_exporter_collector_interval_seconds",
        "trainfleet_exporter_collector_last_success_timestamp_seconds",
        "trainfleet_exporter_dropped_readings_total",
        "trainfleet_exporter_api_budget_calls",
    ):
        assert families[whole] == shown, whole
    assert Configs.denied(number) not in families
    assert set(_LABELS.findall(page)) <= {Configs.label(number)}
    return number


def test_a_thousand_scrapes_during_fifty_reloads(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with running_cloud(seed=1, population=1) as (_, url):
        configs = Configs(url)
        good = [0, *(number for number in range(1, RELOADS + 1) if number % 5)]
        sets = {frozenset(configs.providers(number)): number for number in good}
        path.write_text(configs.good(0), encoding="utf-8")
        arguments = [f"--config.file={path}", "--web.enable-lifecycle"]
        with running_exporter(arguments, tmp_path / "log") as exporter:
            exporter.wait_until_ready()
            before, files = exporter.metrics().text, _open_files(exporter)
            load = Load(exporter.url)
            load.start()
            current = 0
            for number in range(1, RELOADS + 1):
                is_good = number in good
                text = configs.good(number)
                path.write_text(text if is_good else text.replace("5m", "10 parsecs"), encoding="utf-8")
                _reload(exporter, number, by_signal=number % 2 == 1, good=is_good)
                current = number if is_good else current
                page = exporter.metrics().text
                assert _check(page, sets) == current
                assert f"trainfleet_exporter_config_last_reload_successful {float(is_good)}\n" in page
                assert exporter.client.get("/-/ready").status_code == 200
                # So that the scrapes are spread over all reloads, and providers come to show something.
                wanted = number * SCRAPES // RELOADS
                eventually(partial(load.has, wanted), what="scrapes")
            load.over.set()
            load.join()
            assert load.failure is None
            # Connections of providers that went are closed; those of a poll in this moment may be open.
            eventually(lambda: _open_files(exporter) <= files + 10, what="connections to be closed")
            assert exporter.end(signal=signal.SIGTERM) == 0
            log = exporter.log
    assert load.statuses == {200: len(load.pages)}
    assert len(load.pages) >= SCRAPES
    shown = Counter(_check(page, sets) for page in load.pages)
    assert len(shown) > RELOADS // 2
    full = sum(KEPT in _seen(page)[1].get("trainfleet_jobs", ()) for page in load.pages)
    assert full > SCRAPES // 10  # it was data that was compared, and not only names
    assert "trainfleet_job_priority" not in before
    assert log.count("level=error") == RELOADS // 5
    assert "level=warn" not in log
    assert "Traceback" not in log


def test_sighup_at_any_moment_of_a_stop_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with running_cloud(seed=1, population=1) as (_, url):
        path.write_text(Configs(url).good(0), encoding="utf-8")
        with running_exporter([f"--config.file={path}"], tmp_path / "log") as exporter:
            answer = exporter.client.post("/-/reload")
            assert (answer.status_code, answer.text) == (403, "Lifecycle API is not enabled.\n")
            for _ in range(3):
                exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: "msg=reloaded kept=" in exporter.log, what="a reload that changes nothing")
            path.with_suffix(".new").write_text(Configs(url).good(2), encoding="utf-8")
            path.with_suffix(".new").replace(path)  # a reload may still read it
            exporter.process.send_signal(signal.SIGHUP)
            exporter.process.send_signal(signal.SIGTERM)
            while exporter.process.poll() is None:
                exporter.process.send_signal(signal.SIGHUP)
                time.sleep(0.001)
            assert exporter.process.returncode == 0
            log = exporter.log
    assert "msg=stopped" in log
    assert "level=error" not in log
    assert "Traceback" not in log


def test_unreadable_config_delays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with running_cloud(seed=1, population=1) as (_, url):
        path.write_text(Configs(url).good(0), encoding="utf-8")
        with running_exporter([f"--config.file={path}"], tmp_path / "log") as exporter:
            path.unlink()
            os.mkfifo(path)
            exporter.process.send_signal(signal.SIGHUP)
            writer = eventually(partial(_writer, path), what="the exporter to read")
            try:
                assert exporter.metrics().status_code == 200
                assert exporter.end(signal=signal.SIGTERM) == 0
            finally:
                os.close(writer)
            assert "level=error" not in exporter.log


def _writer(path: Path) -> int | None:
    """The writing end of a pipe, once it has a reader."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
