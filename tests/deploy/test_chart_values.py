"""Each value of the chart has an effect, and an upgrade does not change immutable fields."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_chart import CHART, VALUES, merged, refused, validate
from tests.deploy.test_chart_rendered import documents, template

RELEASED = sorted((Path(__file__).parent / "released").glob("chart-*.json"))
"""Files with the immutable fields that each released chart renders for some values."""
_FIXED = {
    "Deployment": ("selector",),
    "StatefulSet": ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "PersistentVolumeClaim": ("accessModes", "resources", "storageClassName"),
    "Service": ("clusterIP",),
}
_TABLES = (
    "prometheusRule.prices",
    "prometheusRule.models",
    "prometheusRule.thresholds",
    "config.inline",
    "commonLabels",
)
_CONTEXTS = ("podSecurityContext.", "securityContext.", "probes.")


def _ci(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "ci" / f"{name}-values.yaml").read_text(encoding="utf-8"))
    return values


def _leaves(values: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and (*before, key) != ("config", "inline"):
            yield from _leaves(value, (*before, key))
        else:
            yield (*before, key)


def _without(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    result = inner = copy.deepcopy(dict(values))
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return result


def _all_rendered(folder: Path, candidates: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the output of Helm for each candidate. It is empty if the chart rejects the values."""
    for number, values in enumerate(candidates.values()):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(template, [folder / f"{number}.yaml" for number in range(len(candidates))]))
    return {name: each.stdout for name, each in zip(candidates, done, strict=True)}


def _objects(rendered: str) -> dict[str, dict[str, Any]]:
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents(rendered) if each}


@pytest.mark.long
def test_each_value_changes_what_is_rendered(tmp_path: Path) -> None:
    everything = _ci("everything")
    strategy = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
    bases = {
        "large": merged(_ci("default"), {name: everything.pop(name) for name in ("dashboards", "prometheusRule")}),
        "everything": everything,
        "sharded": merged(_ci("sharded"), strategy),
        "standby": _ci("standby"),
        "existing": _ci("existing"),
        "tls": _ci("tls"),
        "manifests": merged(_ci("manifests"), {"networkPolicy": {"restrictEgress": False}}),
        "demo": _ci("demo"),
    }
    candidates: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for name, base in bases.items():
        candidates[name] = base
        for path in _leaves(base):
            dotted = ".".join(path)
            if dotted not in seen and not dotted.startswith(_TABLES):
                seen.add(dotted)
                candidates[f"{name} without {dotted}"] = _without(base, path)
    found = _all_rendered(tmp_path, candidates)
    assert sum(not text for text in found.values()) <= 10  # without the image, ingress.hosts or any config, for example
    same = [name for name, text in found.items() if " without " in name and text == found[name.partition(" ")[0]]]
    assert same == []
    known = {".".join(path) for path in _leaves(VALUES)}
    unseen = sorted(dotted for dotted in known if not any(each.startswith(dotted) for each in seen))
    assert [dotted for dotted in unseen if not dotted.startswith((*_TABLES, *_CONTEXTS))] == []
    objects = {document for name in bases for document in found[name].split("\n---\n")}
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text("\n---\n".join(sorted(objects)), encoding="utf-8")
    validate(rendered)


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_an_upgrade_changes_nothing_that_is_fixed(path: Path, tmp_path: Path) -> None:
    """The current chart renders the values of a released chart with the same immutable fields.

    The values keep all but the config, which may have keys that were removed.
    """
    released = json.loads(path.read_text(encoding="utf-8"))
    for each in released.values():
        each["values"].setdefault("image", {})["repository"] = "registry.example.com/x"  # released charts had a default
        if "inline" in each["values"].get("config", {}):
            each["values"]["config"] |= {"inline": _ci("default")["config"]["inline"]}
    assert refused(tmp_path, *(merged(VALUES, each["values"]) for each in released.values())) == {}
    found = _all_rendered(tmp_path, {name: each["values"] for name, each in released.items()})
    for name, text in found.items():
        assert text, name
        objects = _objects(text)
        assert released[name]["fixed"]
        for key, before in released[name]["fixed"].items():
            spec = objects[key]["spec"]
            names = _FIXED[key.partition("/")[0]]
            now = {each: spec.get(each) for each in names}
            assert now == {each: before.get(each) for each in names}, (name, key)


_IMAGE: dict[str, Any] = {"image": {"repository": "registry.example.com/trainfleet-exporter"}}
_DEMO: dict[str, Any] = {**_IMAGE, "demo": True}
_HASTY = {"provider": "p", "thresholds": {"idle_for": "5m"}}
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "default",
        {"updateStrategy": {"type": "RollingUpdate"}},
        "the new pod would poll at the same time",
    ),
    ("default", {"sharding": {"enabled": True}, "updateStrategy": {"type": "Recreate"}}, "shards are a StatefulSet"),
    (
        "default",
        {"lease": {"enabled": True}, "updateStrategy": {"type": "OnDelete"}},
        "OnDelete and partition need shards",
    ),
    ("default", {"lease": {"enabled": True}, "updateStrategy": _ROLLING}, "OnDelete and partition need shards"),
    ("default", {"replicaCount": 2}, "set lease.enabled to true"),
    (
        "default",
        {"replicaCount": 2, "lease": {"enabled": True}, "persistence": {"enabled": True}},
        "set persistence.accessModes to [ReadWriteMany]",
    ),
    ("default", {"ingress": {"enabled": True}}, "ingress.enabled needs ingress.hosts"),
    ("default", {"podDisruptionBudget": {"enabled": True, "minAvailable": 1}}, "leave the other empty"),
    ("default", {"podDisruptionBudget": {"enabled": True, "maxUnavailable": ""}}, "leave the other empty"),
    ("default", {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "scrapes each exporter twice"),
    ("default", {"image": {"repository": ""}}, "set image.repository to the image in your registry"),
    ("default", {"config": {"inline": {"global": {"state_file": "x"}}}}, "config.inline: state_file was removed"),
    ("default", {"config": {"inline": "providers:\n  - sharding: {spread: 1}\n"}}, "belongs to one shard"),
    ("sharded", {"demo": True, "config": {"inline": None}}, "the demo is one exporter"),
    ("sharded", {"persistence": {"enabled": True, "existingClaim": "x"}}, "each shard needs its own volume"),
    ("", _IMAGE, "exactly one of config.inline, config.existingConfigMap"),
    ("", {**_DEMO, "config": {"existingSecret": "x"}}, "exactly one of config.inline, config.existingConfigMap"),
    ("", {**_DEMO, "web": {"config": {"existingSecret": "x"}}}, "the demo has no TLS and no users"),
    ("", {**_DEMO, "web": {"scheme": "https"}}, "the demo has no TLS and no users"),
    ("", {**_IMAGE, "config": {"existingSecret": "x"}, "web": {"scheme": "https"}}, "https needs a web config"),
    ("", {**_DEMO, "prometheusRule": {"thresholds": {"idle_for": "15m"}}}, "found 15m; allowed: over 900s"),
    ("", {**_DEMO, "prometheusRule": {"overrides": [_HASTY]}}, "found 5m; allowed: over 900s"),
]
"""Values that a file of `ci` is changed by, or all of them, and what Helm says."""


@pytest.mark.parametrize(
    ("base", "values", "words"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_contradictions_are_refused(base: str, values: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(merged(_ci(base) if base else {}, values)), encoding="utf-8")
    done = template(path)
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("shards", [1, 3])
def test_two_pods_share_each_lease_and_may_change_no_other(shards: int, tmp_path: Path) -> None:
    values = {"rbac": {"create": True}, "sharding": {"enabled": shards > 1, "totalShards": shards}}
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(merged(_ci("standby"), values)), encoding="utf-8")
    objects = {each["kind"]: each for each in _objects(template(path).stdout).values()}
    spec = objects["StatefulSet" if shards > 1 else "Deployment"]["spec"]
    assert spec["replicas"] == 2 * shards
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    (container,) = pod["containers"]
    assert "--lease=kubernetes" in container["args"]
    (name,) = [each["value"] for each in container["env"] if each["name"] == "TRAINFLEET_LEASE_NAME"]
    create, named = objects["Role"]["rules"]
    assert create["verbs"] == ["create"]
    assert named["verbs"] == ["get", "update"]
    assert named["resourceNames"] == ([name] if shards == 1 else [f"{name}-{shard}" for shard in range(shards)])
    binding = objects["RoleBinding"]
    assert binding["roleRef"]["name"] == objects["Role"]["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == [pod["serviceAccountName"]]
    strategy = spec["updateStrategy" if shards > 1 else "strategy"]
    assert strategy["type"] == "RollingUpdate"
    ports = [port["port"] for rule in objects["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]]
    assert {443, 5443, 5444, 6443} <= {*ports}


def test_the_test_pod_asks_the_service_and_is_not_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(merged(_ci("manifests"), {"helmTest": {"enabled": True}})), encoding="utf-8")
    objects = _objects(template(path).stdout)
    (pod,) = [each for each in objects.values() if each["kind"] == "Pod"]
    (service,) = [each for each in objects.values() if each["kind"] == "Service"]
    (policy,) = [each for each in objects.values() if each["kind"] == "NetworkPolicy"]
    labels, name = pod["metadata"]["labels"], service["metadata"]["name"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (port,) = service["spec"]["ports"]
    assert pod["spec"]["containers"][0]["args"] == ["healthcheck", f"--url=http://{name}:{port['port']}/-/ready"]
    assert not service["spec"]["selector"].items() <= labels.items()
    allowed = [
        each["podSelector"]["matchLabels"] for each in policy["spec"]["ingress"][0]["from"] if "podSelector" in each
    ]
    assert [each.items() <= labels.items() for each in allowed] == [True]
