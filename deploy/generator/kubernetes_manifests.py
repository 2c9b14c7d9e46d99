"""The plain manifests, of what Helm makes of the chart:

    helm template trainfleet-exporter deploy/kubernetes/chart --namespace monitoring \\
        --values deploy/kubernetes/chart/ci/manifests-values.yaml | python -m deploy.generator.kubernetes_manifests

Helm is not there wherever the checks run, so each manifest says the digest of what it was made of: a test fails when
the chart has moved on without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from deploy.generator import write
from deploy.generator.kubernetes import MANIFESTS, digest

DIGEST = "# Chart digest: "
_ORDER = ("ServiceAccount", "ConfigMap", "PersistentVolumeClaim", "Service", "Deployment", "NetworkPolicy")
"""What is needed comes before what needs it."""
_OPERATOR = "ServiceMonitor"
_HELMS = re.compile(
    r"^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/config): .*\n|^# Source: .*\n", re.MULTILINE
)
"""What Helm says about itself and does, and is not true of a manifest that is applied without it."""
_HEAD = """\
# The exporter without Helm: made by helm template and python -m deploy.generator.kubernetes_manifests, of the chart in
# ../chart with its ci/manifests-values.yaml.
{digest}
#
#   kubectl create namespace monitoring
#   kubectl -n monitoring create secret generic trainfleet-keys \\
#     --from-file=access-key-id=FILE --from-file=access-key-secret=FILE
#   kubectl apply -f exporter.yaml    # after your account is in the ConfigMap
#
# With the Prometheus operator also servicemonitor.yaml and prometheusrule.yaml. After a change of the ConfigMap restart
# the deployment.
"""
_OPERATOR_HEAD = """\
# For the Prometheus operator: made as exporter.yaml is.
{digest}
"""


def manifests(rendered: str) -> Mapping[Path, str]:
    """The manifests by their paths from deploy/. KeyError for a kind that has no place yet."""
    found: dict[str, str] = {}
    for document in re.split(r"^---\n", _HELMS.sub("", rendered), flags=re.MULTILINE):
        content = yaml.safe_load(document)
        if content is not None:
            found[content["kind"]] = document.strip("\n") + "\n"
    told = DIGEST + digest()
    monitor = found.pop(_OPERATOR)
    ours = [found.pop(kind) for kind in _ORDER]
    if found:
        raise KeyError(*found)
    return {
        MANIFESTS / "exporter.yaml": "---\n".join([_HEAD.format(digest=told), *ours]),
        MANIFESTS / "servicemonitor.yaml": _OPERATOR_HEAD.format(digest=told) + monitor,
    }


if __name__ == "__main__":
    write(manifests(sys.stdin.read()))
