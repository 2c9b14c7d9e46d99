"""The Helm chart and the manifests, checked without Helm. test_chart_rendered.py needs Helm."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.generator import DEPLOY, kubernetes
from deploy.generator.kubernetes import RETIRED

import trainfleet_exporter
from trainfleet_exporter.cli import main

CHART = DEPLOY / kubernetes.CHART
MANIFESTS = DEPLOY / kubernetes.MANIFESTS
VALUE_FILES = sorted((CHART / "ci").glob("*-values.yaml"))
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values files as Helm does: maps key by key."""
    result = dict(copy.deepcopy(values))
    for key, value in over.items():
        there = result.get(key)
        result[key] = merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return result


def refused(folder: Path, *candidates: Mapping[str, Any]) -> dict[int, list[str]]:
    """Return the keys that the schema rejects, by the number of the candidate. Valid candidates are left out."""
    names = [f"values-{number}.json" for number in range(len(candidates))]
    for name, values in zip(names, candidates, strict=True):
        (folder / name).write_text(json.dumps(values), encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "-o", "json", "--schemafile", f"{CHART}/values.schema.json"]
    done = subprocess.run([*command, *names], capture_output=True, text=True, cwd=folder)
    found: dict[int, list[str]] = {}
    for fault in json.loads(done.stdout)["errors"]:
        found.setdefault(names.index(fault["filename"]), []).append(fault["path"])
    return found


def validate(*paths: Path) -> None:
    """Check manifests against the schemas of Kubernetes, which have no kinds of the Prometheus operator."""
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "--no-warn", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_manifests_are_valid() -> None:
    validate(*MANIFESTS.glob("*.yaml"))


def test_the_manifests_config_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = {each["kind"]: each for each in yaml.safe_load_all((MANIFESTS / "exporter.yaml").read_text("utf-8"))}
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    (name, text), *_ = documents["ConfigMap"]["data"].items()
    assert container["args"][0] == f"--config.file={mounts['config']}/{name}"
    wanted = re.findall(rf"{mounts['secret-0']}/(\S+)", text)
    assert len(wanted) == 2
    assert all(f"--from-file={key}=" in (MANIFESTS / "exporter.yaml").read_text("utf-8") for key in wanted)
    for key in wanted:
        (tmp_path / key).write_text("x" * 24, encoding="utf-8")
    config = tmp_path / "config.yaml"
    config.write_text(text.replace(mounts["secret-0"], str(tmp_path)), "utf-8")
    assert main([f"--config.file={config}", "--config.check"]) == 0, capsys.readouterr().err


def test_the_pod_is_as_strict_as_pods_can_be() -> None:
    documents = {each["kind"]: each for each in yaml.safe_load_all((MANIFESTS / "exporter.yaml").read_text("utf-8"))}
    spec = documents["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (65532, 65532)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_default_image_has_no_free_name() -> None:
    """An image of a free name would run with the keys of clouds."""
    assert VALUES["image"]["repository"] == ""
    images = re.findall(r"image: (.*)", (MANIFESTS / "exporter.yaml").read_text(encoding="utf-8"))
    assert images == [f'"registry.example.com/trainfleet-exporter:{trainfleet_exporter.__version__}"']


def test_the_chart_is_of_this_version() -> None:
    chart = _load(CHART / "Chart.yaml")
    assert chart["appVersion"] == chart["version"] == trainfleet_exporter.__version__


WRONG: dict[str, dict[str, Any]] = {
    "$.replicaCount": {"replicaCount": 3},
    "$.lease.enabled": {"lease": {"enabled": "kubernetes"}},
    "$.sharding.totalShards": {"sharding": {"totalShards": 0}},
    "$": {"replicas": 1},
    "$.web.scheme": {"web": {"scheme": "ftp"}},
    "$.web.telemetryPath": {"web": {"telemetryPath": "metrics"}},
    "$.image.digest": {"image": {"digest": "abc"}},
    "$.config.inline": {"config": {"inline": 1}},
    "$.secrets[0]": {"secrets": [{"name": "x"}]},
    "$.serviceAccount.tokens[0]": {"serviceAccount": {"tokens": [{"path": "x"}]}},
    "$.prometheusRule.thresholds": {"prometheusRule": {"thresholds": {"idle_ratoi": 0.1}}},
    "$.prometheusRule.thresholds.idle_ratio": {"prometheusRule": {"thresholds": {"idle_ratio": "a lot"}}},
    "$.prometheusRule.thresholds.idle_for": {"prometheusRule": {"thresholds": {"idle_for": "1 hour"}}},
    "$.prometheusRule.thresholds.exporter_job": {"prometheusRule": {"thresholds": {"exporter_job": ""}}},
    "$.probes.liveness": {"probes": {"liveness": {"timeoutSecond": 1}}},
    "$.probes.startup.successThreshold": {"probes": {"startup": {"successThreshold": 2}}},
    "$.prometheusRule.prices.x": {"prometheusRule": {"prices": {"x": "free"}}},
    "$.prometheusRule.models.x": {"prometheusRule": {"models": {"x": {"name": "H20"}}}},
    "$.prometheusRule.models.x.peak_tflops": {"prometheusRule": {"models": {"x": {"name": "X", "peak_tflops": 0}}}},
    "$.persistence.size": {"persistence": {"size": "big"}},
    "$.updateStrategy.type": {"updateStrategy": {"type": "Rolling"}},
    "$.updateStrategy.rollingUpdate.maxSurge": {"updateStrategy": {"rollingUpdate": {"maxSurge": "1"}}},
    "$.initContainers[0]": {"initContainers": [{"image": "x"}]},
    "$.extraContainers[0].name": {"extraContainers": [{"name": "Not a name"}]},
    "$.extraManifests[0]": {"extraManifests": [1]},
    "$.topologySpreadConstraints[0]": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]},
    "$.ingress.hosts[0]": {"ingress": {"hosts": [{"paths": [{"path": "/"}]}]}},
    "$.ingress.hosts[0].paths[0].path": {"ingress": {"hosts": [{"host": "x", "paths": [{"path": "x"}]}]}},
    "$.ingress.tls[0]": {"ingress": {"tls": [{"secretName": "x"}]}},
    "$.podDisruptionBudget.minAvailable": {"podDisruptionBudget": {"minAvailable": "one"}},
    "$.serviceMonitor.sampleLimit": {"serviceMonitor": {"sampleLimit": "many"}},
    "$.podMonitor.bodySizeLimit": {"podMonitor": {"bodySizeLimit": "10"}},
    "$.helmTest.enabled": {"helmTest": {"enabled": "yes"}},
}


def test_schema_accepts_valid_values_and_rejects_others(tmp_path: Path) -> None:
    assert len(VALUE_FILES) >= 5
    good = [VALUES, *(merged(VALUES, _load(path)) for path in VALUE_FILES)]
    good.append(merged(VALUES, {"prometheusRule": {"thresholds": dict(RETIRED)}}))
    found = refused(tmp_path, *good, *(merged(VALUES, wrong) for wrong in WRONG.values()))
    assert found == {number: [path] for number, path in enumerate(WRONG, len(good))}


def test_manifest_scrapes_have_the_job_of_the_rules() -> None:
    relabelings = _load(MANIFESTS / "servicemonitor.yaml")["spec"]["endpoints"][0]["relabelings"]
    wanted = VALUES["prometheusRule"]["thresholds"]["exporter_job"]
    assert relabelings == [{"targetLabel": "job", "replacement": wanted}]


def test_every_flag_that_the_chart_gives_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        main(["--help"])
    known = capsys.readouterr().out
    template = (CHART / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    flags = re.findall(r"^ +- (--[a-z.-]+)", template, re.MULTILINE)
    assert len(flags) >= 6
    assert [flag for flag in flags if flag not in known] == []
