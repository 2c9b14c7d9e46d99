"""The Helm chart, rendered by Helm (`tests/support/fetch_helm.py`). test_chart.py needs no Helm."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.generator import DEPLOY, rules
from deploy.generator.kubernetes_manifests import manifests
from deploy.generator.rules_accelerators import PRICE
from deploy.generator.rules_yaml import Tuning
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from tests.deploy.test_chart import CHART, VALUE_FILES, VALUES, merged, validate
from tests.support.programs import need


def template(*values: Path, name: str = "fleet") -> subprocess.CompletedProcess[str]:
    """Run `helm template` on the chart with these values files."""
    flags = [flag for path in values for flag in ("--values", str(path))]
    command = [need("helm"), "template", name, str(CHART), "--namespace", "monitoring", *flags]
    return subprocess.run(command, capture_output=True, text=True)


def _rendered(*values: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rendered objects by kind."""
    done = template(*values)
    assert done.returncode == 0, done.stderr
    return _by_kind(done.stdout)


def documents(rendered: str) -> list[Any]:
    """The objects in a text. Python's own reader takes half a second for the dashboards in it."""
    return list(yaml.load_all(rendered, yaml.CSafeLoader))


def _by_kind(rendered: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for document in documents(rendered):
        if document is not None:
            found.setdefault(document["kind"], []).append(document)
    return found


_TEXT, _MAP = {"type": "string"}, {"type": "object"}
_DURATION = {"type": "string", "pattern": r"^(0|(\d+(ms|[smhdwy]))+)$"}
_RELABEL = {
    "type": "array",
    "items": {
        "additionalProperties": False,
        "properties": {
            "action": {"enum": ["replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep"]},
            "regex": _TEXT,
            "replacement": _TEXT,
            "separator": _TEXT,
            "sourceLabels": {"type": "array", "items": _TEXT},
            "targetLabel": _TEXT,
        },
    },
}
_ENDPOINT = {
    "additionalProperties": False,
    "properties": {
        "port": _TEXT,
        "path": _TEXT,
        "scheme": {"enum": ["http", "https", "HTTP", "HTTPS"]},
        "interval": _DURATION,
        "scrapeTimeout": _DURATION,
        "tlsConfig": _MAP,
        "basicAuth": {"type": "object", "additionalProperties": _MAP},
        "relabelings": _RELABEL,
        "metricRelabelings": _RELABEL,
    },
}


def _monitor_schema(endpoints: str) -> dict[str, Any]:
    """Return what the operator's CRDs (v0.93) say of the fields that the chart renders. Others are errors."""
    return {
        "required": [endpoints, "selector"],
        "additionalProperties": False,
        "properties": {
            endpoints: {"type": "array", "minItems": 1, "items": _ENDPOINT},
            "selector": {"properties": {"matchLabels": {"additionalProperties": _TEXT}}, "additionalProperties": False},
            "namespaceSelector": {
                "properties": {"any": {"type": "boolean"}, "matchNames": {"type": "array", "items": _TEXT}},
                "additionalProperties": False,
            },
            "sampleLimit": {"type": "integer"},
            "bodySizeLimit": {"type": "string", "pattern": r"(^0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)$"},
        },
    }


@pytest.mark.parametrize("path", VALUE_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_the_operator_takes_the_monitors(kind: str, path: Path, tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    limits = {"sampleLimit": 7, "bodySizeLimit": "10MB"}
    off = {"serviceMonitor": {"enabled": False}, "podMonitor": {"enabled": False}}
    on = {kind[0].lower() + kind[1:]: {"enabled": True, **limits}}
    several = {"prometheusRule": {"thresholds": {"exporter_job": "one|other"}}}
    change.write_text(yaml.safe_dump({**off, **on, **several}), encoding="utf-8")
    (monitor,) = _rendered(path, change)[kind]
    schema = _monitor_schema(listed := "endpoints" if kind == "ServiceMonitor" else "podMetricsEndpoints")
    assert monitor["spec"][listed][0]["relabelings"][0] == {"targetLabel": "job", "replacement": "one"}
    assert [fault.json_path for fault in Draft7Validator(schema).iter_errors(monitor["spec"])] == []
    assert limits.items() <= monitor["spec"].items()


def _values(name: str) -> Path:
    return CHART / "ci" / f"{name}-values.yaml"


@pytest.mark.parametrize("path", VALUE_FILES, ids=lambda path: path.stem)
def test_it_renders_what_kubernetes_takes(path: Path, tmp_path: Path) -> None:
    done = template(path)
    assert (done.returncode, done.stderr) == (0, "")
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(done.stdout, encoding="utf-8")
    validate(rendered)
    found = _by_kind(done.stdout)
    (workload,) = found.get("Deployment", []) + found.get("StatefulSet", [])
    pod = workload["spec"]["template"]["spec"]
    mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
    claimed = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())]
    assert sorted(mounted) == sorted([*claimed, *(volume["name"] for volume in pod["volumes"])])


def test_shards_know_which_they_are_and_how_many() -> None:
    found = _rendered(_values("sharded"))
    assert "Deployment" not in found
    assert "PersistentVolumeClaim" not in found
    (workload,) = found["StatefulSet"]
    spec = workload["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert spec["replicas"] == 5
    assert {"--shard=$(POD_NAME)", "--total-shards=5"} <= set(container["args"])
    (name,) = [each for each in container["env"] if each["name"] == "POD_NAME"]
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    (service,) = [each for each in found["Service"] if each["metadata"]["name"] == spec["serviceName"]]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_to_divide_a_running_release_leaves_its_service_as_it_is(kind: str, tmp_path: Path) -> None:
    """Kubernetes rejects a change of the clusterIP of an existing Service."""
    one = tmp_path / "one.yaml"
    one.write_text(yaml.safe_dump({"sharding": {"enabled": False}, "service": {"type": kind}}), encoding="utf-8")
    several = tmp_path / "several.yaml"
    several.write_text(yaml.safe_dump({"service": {"type": kind}}), encoding="utf-8")
    (before,) = _rendered(_values("sharded"), one)["Service"]
    after = _rendered(_values("sharded"), several)["Service"]
    assert [each for each in after if each["metadata"]["name"] == before["metadata"]["name"]] == [before]
    assert "clusterIP" not in before["spec"]
    assert [each["spec"]["clusterIP"] for each in after if each != before] == ["None"]


@pytest.mark.parametrize("path", VALUE_FILES, ids=lambda path: path.stem)
def test_each_exporter_is_scraped_once(path: Path, tmp_path: Path) -> None:
    """The chart's ServiceMonitor, one that selects a label of its Service, and annotations find it once each."""
    change = tmp_path / "change.yaml"
    monitors = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": False}}
    labelled = {"labels": {"scraped": "yes"}, "annotations": {"prometheus.io/scrape": "true"}}
    change.write_text(yaml.safe_dump({**monitors, "service": labelled}), encoding="utf-8")
    found = _rendered(path, change)
    (workload,) = found.get("Deployment", []) + found.get("StatefulSet", [])
    (monitor,) = found["ServiceMonitor"]
    selectors = [monitor["spec"]["selector"]["matchLabels"], {"scraped": "yes"}]
    selectors.append({"app.kubernetes.io/name": selectors[0]["app.kubernetes.io/name"]})
    selectors.append({"app.kubernetes.io/component": "exporter"})
    scraped = [
        [each for each in found["Service"] if selector.items() <= each["metadata"]["labels"].items()]
        for selector in selectors
    ]
    scraped.append([each for each in found["Service"] if "annotations" in each["metadata"]])
    (service,) = scraped[0]
    assert scraped == [[service]] * 5
    assert service["metadata"]["name"] == workload["metadata"]["name"]
    assert service["spec"]["selector"].items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


def test_a_changed_config_rolls_the_pod(tmp_path: Path) -> None:
    def annotations(*values: Path) -> Any:
        return _rendered(*values)["Deployment"][0]["spec"]["template"]["metadata"]["annotations"]

    change = tmp_path / "change.yaml"
    change.write_text("config: {inline: {global: {poll_interval: 2m}}}", encoding="utf-8")
    before, after = annotations(_values("default")), annotations(_values("default"), change)
    assert before.keys() == after.keys()
    assert before["checksum/config"] != after["checksum/config"]


def test_numbers_of_the_config_stay_what_they_are() -> None:
    (config,) = _rendered(_values("everything"))["ConfigMap"][:1]
    given = yaml.safe_load(_values("everything").read_text(encoding="utf-8"))["config"]
    assert yaml.safe_load(config["data"][given["key"]]) == given["inline"]


def _ordered(groups: list[dict[str, Any]]) -> list[Any]:
    """Sort the records of prices and models, because Helm sorts them."""

    def place(rule: dict[str, Any]) -> tuple[str, str]:
        return (
            (rule["record"], rule["labels"]["accelerator_model"]) if rule["expr"].startswith("vector(") else ("~", "")
        )

    return [{**group, "rules": sorted(group["rules"], key=place)} for group in groups]


@pytest.mark.parametrize("name", ["demo", "everything"])
def test_the_rules_are_those_of_the_generator(name: str, tmp_path: Path) -> None:
    """One set of values has other thresholds, prices, records and overrides."""
    (rule,) = _rendered(_values(name))["PrometheusRule"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]), encoding="utf-8")
    assert subprocess.run([need("promtool"), "check", "rules", path], capture_output=True).returncode == 0
    for group in rule["spec"]["groups"]:
        for each in group["rules"]:
            if each.get("record") == PRICE:  # Helm writes 52.0 as 52
                each["expr"] = f"vector({float(each['expr'][7:-1])})"
    tuned = merged(VALUES, yaml.safe_load(_values(name).read_text(encoding="utf-8")))["prometheusRule"]
    tuned["prices"] = {model: float(price) for model, price in tuned["prices"].items()}
    tuning = Tuning(**{each.name: tuned[each.name] for each in fields(Tuning)})
    ours = yaml.safe_load(rules.render(tuning))["groups"]
    assert _ordered(rule["spec"]["groups"]) == _ordered(ours)


def test_dashboards_come_as_they_are() -> None:
    found = {name: text for each in _rendered(_values("demo"))["ConfigMap"] for name, text in each["data"].items()}
    folder = DEPLOY / "grafana" / "dashboards"
    assert found.keys() == {path.name for path in folder.glob("*.json")}
    for name, text in found.items():
        assert text.strip() == (folder / name).read_text(encoding="utf-8").strip()


def test_the_plain_manifests_are_what_the_chart_gives() -> None:
    done = template(_values("manifests"), name="trainfleet-exporter")
    for path, text in manifests(done.stdout).items():
        committed = (DEPLOY / path).read_text(encoding="utf-8")
        assert documents(committed) == documents(text), path
