"""Simulated clouds with faults show each symptom of docs/troubleshoot.md where the page says."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.docs.pages import ROOT
from tests.e2e.processes import running_cloud
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.cli import main
from trainfleet_simulator import Simulator

PAGE = (ROOT / "docs" / "troubleshoot.md").read_text(encoding="utf-8")
_SECTIONS = {title: text for title, _, text in (part.partition("\n") for part in PAGE.split("\n## ")[1:])}
PAI, MODELARTS = "sim-pai-hangzhou", "sim-modelarts-north4"
_NOWHERE = "pai.nowhere.invalid"
_DENIED: Mapping[str, Any] = {"match": {"operation": "ListJobs"}, "kind": "denied"}


def _same(config: dict[str, Any]) -> None:
    pass


def _at(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a function that sets a value of the config."""

    def change(config: Any) -> None:
        for key in path[:-1]:
            config = config[key]
        config[path[-1]] = value

    return change


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault and its symptoms: words of the log, patterns of series, and advice of `diagnose`."""

    section: str
    log: Sequence[str]
    series: Sequence[str] = ()
    advice: str = ""
    faults: Sequence[Mapping[str, Any]] = ()
    change: Callable[[dict[str, Any]], None] = _same
    """Changes the config, which has one provider."""
    provider: str = PAI


SYMPTOMS = {
    "denied": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "Forbidden"],
        [rf'trainfleet_provider_up{{provider="{PAI}"}} 1', r'api_requests_total{.*outcome="auth".*} [1-9]'],
        "grant the identity paidlc:ListJobs",
        faults=[_DENIED],
    ),
    "one workspace": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "Forbidden"],
        [rf'collector_parts_failed{{collector="jobs",provider="{PAI}"}} 1', r"trainfleet_job_info{.*12346"],
        faults=[{"match": {"operation": "ListJobs", "WorkspaceId": "12345"}, "kind": "denied"}],
    ),
    "wrong secret": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "SignatureDoesNotMatch"],
        [rf'trainfleet_provider_up{{provider="{PAI}"}} 0'],
        change=_at("providers", 0, "credentials", "access_key_secret", value="another-secret"),
    ),
    "deleted key": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "InvalidAccessKeyId"],
        faults=[{"match": {}, "kind": "revoked_credentials"}],
    ),
    "clock": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "InvalidTimeStamp"],
        faults=[{"match": {}, "kind": "skewed_clock"}],
    ),
    "wrong project": Symptom(
        "403 and other rejected calls",
        ["reason=auth", "The project ID in the URL does not match"],
        [rf'trainfleet_provider_up{{provider="{MODELARTS}"}} 0'],
        change=_at("providers", 0, "project_id", value="0" * 32),
        provider=MODELARTS,
    ),
    "throttled": Symptom(
        "Throttled",
        ["reason=throttled"],
        [r'api_requests_total{.*outcome="throttled".*} [1-9]'],
        "dlc throttles",
        faults=[{"match": {"api": "dlc"}, "kind": "throttled"}],
    ),
    "no such address": Symptom(
        "Wrong region",
        ["reason=network", "name not resolved"],
        [rf'trainfleet_provider_up{{provider="{PAI}"}} 0'],
        "cannot reach ",
        change=_at(
            "providers",
            0,
            "endpoints",
            value=dict.fromkeys(("dlc", "paistudio", "aiworkspace", "cloudmonitor"), f"https://{_NOWHERE}"),
        ),
    ),
    "firewall": Symptom(
        "Wrong region",
        ["connection refused"],
        change=_at("providers", 0, "endpoints", "dlc", value="http://127.0.0.1:9"),
    ),
    "cloud fails": Symptom(
        "Stale series",
        ["reason=server", "reason=not_ready"],
        [r"collector_parts_failed{.*} [1-9]", r'collector_success{collector="jobs".*} 0'],
        faults=[{"match": {"operation": "ListJobs"}, "kind": "server_error"}],
    ),
    "slow cloud": Symptom(
        "Stale series",
        ["reason=timeout", "the poll's deadline passed"],
        faults=[{"match": {"operation": "ListJobs"}, "delay": 5}],
        change=_at("global", value={"poll_interval": "3s", "poll_timeout": "2s"}),
    ),
    "unknown workspace": Symptom(
        "No series",
        ["the cloud does not list this workspace"],
        [r'collector_success{collector="workspaces".*} 0'],
        change=_at("providers", 0, "workspaces", value=["12345", "99999"]),
    ),
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Simulator, str]]:
    with running_cloud(seed=1, clouds=CLOUDS) as found:
        yield found


@pytest.fixture(autouse=True)
def _no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lookup of an unknown host fail without a resolver."""
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == _NOWHERE:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("name", SYMPTOMS)
def test_symptom(name: str, cloud: tuple[Simulator, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    symptom, (simulator, url) = SYMPTOMS[name], cloud
    config = yaml.safe_load(simulator.config_yaml(url))
    config["providers"] = [each for each in config["providers"] if each["name"] == symptom.provider]
    symptom.change(config)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    httpx.post(f"{url}/faults", json=symptom.faults, trust_env=False).raise_for_status()
    try:
        main(["once", f"--config.file={path}"])
        metrics, log = capfd.readouterr()
        section = _SECTIONS[symptom.section]
        for words in symptom.log:
            assert words in log
            assert words in section, words
        for series in symptom.series:
            assert re.search(rf"^\S*{series}", metrics, re.MULTILINE), series
        if symptom.advice:
            main(["diagnose", f"--config.file={path}"])
            advice = capfd.readouterr().out.partition("what to change:")[2]
            assert symptom.advice in advice
    finally:
        httpx.post(f"{url}/faults", json=[], trust_env=False).raise_for_status()


def test_every_symptom_of_the_page_is_shown_or_needs_a_client() -> None:
    table = re.findall(r"^\| .* \| \[(.+)\]\(#", PAGE, re.MULTILINE)
    assert set(table) - {symptom.section for symptom in SYMPTOMS.values()} == {
        *("Slow scrape", "Clients that are refused", "Memory")
    }
