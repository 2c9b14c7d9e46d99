"""The lease: of several exporters with one config, the one that holds it polls. The others stand by.

A lease is a record with a version that changes with each write. The API server of Kubernetes replaces the record only
if its version is still the one that was read (optimistic concurrency). `elector.py` explains why two exporters never
poll at the same time.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping

from trainfleet_exporter.lease.elector import Elector, Role
from trainfleet_exporter.lease.kubernetes import KubernetesLease, Record, in_cluster

NAME_VARIABLE = "TRAINFLEET_LEASE_NAME"
_NAME = "trainfleet-exporter"


def open_lease(*, shard: int | None = None, environ: Mapping[str, str] = os.environ) -> KubernetesLease:
    """Return the lease of the pod's namespace. Each `shard` has a separate lease. StartError outside a cluster."""
    suffix = "" if shard is None else f"-{shard}"
    return in_cluster(environ.get(NAME_VARIABLE, _NAME) + suffix, environ)


def identity() -> str:
    """A name for this process that no other has: the host's, which is the pod's, and random digits."""
    return f"{socket.gethostname()[:63]}_{secrets.token_hex(4)}"


__all__ = ["NAME_VARIABLE", "Elector", "KubernetesLease", "Record", "Role", "identity", "open_lease"]
