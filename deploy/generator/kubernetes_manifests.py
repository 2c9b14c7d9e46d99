"""Write the plain manifests from the chart, as Helm renders it:

    helm template trainfleet-exporter deploy/kubernetes/chart --namespace monitoring \\
        --values deploy/kubernetes/chart/ci/manifests-values.yaml | python -m deploy.generator.kubernetes_manifests
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from deploy.generator import write
from deploy.generator.kubernetes import MANIFESTS

_ORDER = ("ServiceAccount", "ConfigMap", "Service", "Deployment", "NetworkPolicy")
"""The kinds in exporter.yaml, in the order in which Kubernetes needs them."""
_OPERATOR = "ServiceMonitor"
_HELMS = re.compile(
    r"^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/config): .*\n|^# Source: .*\n", re.MULTILINE
)
"""Lines that Helm adds. They are wrong in a manifest that is applied without Helm."""
_HEAD = """\
# The exporter without Helm. `helm template` and `python -m deploy.generator.kubernetes_manifests` wrote this file from
# ../chart with ci/manifests-values.yaml.
#
#   kubectl create namespace monitoring
#   kubectl -n monitoring create secret generic trainfleet-keys \\
#     --from-file=access-key-id=FILE --from-file=access-key-secret=FILE
#   kubectl apply -f exporter.yaml    # after you have written your account into the ConfigMap
#
# With the Prometheus operator, also apply servicemonitor.yaml and prometheusrule.yaml. After you change the ConfigMap,
# restart the Deployment.
"""
_OPERATOR_HEAD = """\
# For the Prometheus operator, from the same chart as exporter.yaml.
"""


def manifests(rendered: str) -> Mapping[Path, str]:
    """Return the manifests. Paths are relative to deploy/. Raises KeyError for a kind that is not in `_ORDER`."""
    found: dict[str, str] = {}
    for document in re.split(r"^---\n", _HELMS.sub("", rendered), flags=re.MULTILINE):
        content = yaml.safe_load(document)
        if content is not None:
            found[content["kind"]] = document.strip("\n") + "\n"
    monitor = found.pop(_OPERATOR)
    ours = [found.pop(kind) for kind in _ORDER]
    if found:
        raise KeyError(*found)
    return {
        MANIFESTS / "exporter.yaml": "---\n".join([_HEAD, *ours]),
        MANIFESTS / "servicemonitor.yaml": _OPERATOR_HEAD + monitor,
    }


if __name__ == "__main__":
    write(manifests(sys.stdin.read()))
