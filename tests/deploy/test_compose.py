"""deploy/compose: all mounted files exist, and all services find each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainfleet_exporter.cli import demo

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "compose"


def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


COMPOSE = _load(FOLDER / "compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def _mounts(service: str) -> dict[str, str]:
    """Return the sources of a service's mounts by target."""
    return {target: source for source, target, *_ in (each.split(":") for each in SERVICES[service].get("volumes", []))}


def test_the_mounts_are_those_of_this_repository() -> None:
    mounted = {
        (FOLDER / source).resolve() for name in SERVICES for source in _mounts(name).values() if source[0] == "."
    }
    grafana = {DEPLOY / "grafana" / name for name in ("provisioning", "dashboards")}
    rules = {DEPLOY / "prometheus" / "rules", DEPLOY / "alertmanager" / "alertmanager.yml"}
    assert grafana | rules <= mounted


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_and_confined(name: str) -> None:
    service = SERVICES[name]
    ours = "build" in service and service["pull_policy"] == "build"
    assert ours or re.search(r":v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}$", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= service.keys()


def test_the_exporter_takes_its_command() -> None:
    command, *flags = SERVICES["exporter"]["command"]
    assert command == "demo"
    assert demo.make_context("demo", flags).params["web_listen_address"] == (":10075",)


def test_prometheus_is_as_the_example_but_for_addresses() -> None:
    example, ours = (_load(folder / "prometheus.yml") for folder in (DEPLOY / "prometheus", FOLDER))
    (alertmanager,) = ours["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    (exporter,) = ours["scrape_configs"][0]["static_configs"][0]["targets"]
    assert alertmanager.partition(":")[0] in SERVICES
    assert exporter.partition(":")[0] in SERVICES
    text = json.dumps(ours).replace(alertmanager, "localhost:9093").replace(exporter, "localhost:10075")
    assert json.loads(text) == example
    assert ours["scrape_configs"][0]["sample_limit"] > 1_260_000  # of the largest fleet in docs/scale.md


def test_grafana_finds_its_dashboards_and_its_prometheus() -> None:
    mounts, environment = _mounts("grafana"), SERVICES["grafana"]["environment"]
    (provider,) = (_load(path) for path in (DEPLOY / "grafana" / "provisioning" / "dashboards").glob("*.yaml"))
    folder = provider["providers"][0]["options"]["path"]
    dashboards = FOLDER / mounts[folder]
    home = Path(environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == folder
    assert (dashboards / home.name).exists()
    (source,) = (_load(path) for path in (DEPLOY / "grafana" / "provisioning" / "datasources").glob("*.yaml"))
    variable = re.fullmatch(r"\$\{(\w+)\}", source["datasources"][0]["url"])
    assert variable
    assert environment[variable[1]].removeprefix("http://").partition(":")[0] in SERVICES
