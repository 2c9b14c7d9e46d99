"""The lease: of several exporters with one config, the one that holds it polls. The others stand by.

A lease is a record with a version that changes with each write. A store replaces the record only if its version is
still the one that was read (optimistic concurrency). `elector.py` explains why two exporters never poll at the same
time.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from trainfleet_exporter.lease.elector import Elector, Role
from trainfleet_exporter.lease.file import FileLease
from trainfleet_exporter.lease.kubernetes import in_cluster
from trainfleet_exporter.lease.record import LeaseStore, Record

NAME_VARIABLE = "TRAINFLEET_LEASE_NAME"
_NAME = "trainfleet-exporter"
FILE = "file:"


def open_lease(kind: str, *, shard: int | None = None, environ: Mapping[str, str] = os.environ) -> LeaseStore:
    """Return the lease of a `--lease` flag: `kubernetes` or `file:PATH`. Each `shard` has a separate lease.

    Raises StartError for `kubernetes` outside a cluster.
    """
    suffix = "" if shard is None else f"-{shard}"
    if kind.startswith(FILE):
        path = Path(kind.removeprefix(FILE))
        return FileLease(path.with_name(path.name + suffix))
    return in_cluster(environ.get(NAME_VARIABLE, _NAME) + suffix, environ)


def identity() -> str:
    """A name for this process that no other has: the host's, which is the pod's, and random digits."""
    host = re.sub("[^A-Za-z0-9.-]", "-", socket.gethostname())
    return f"{host[:63]}_{secrets.token_hex(4)}"


__all__ = ["FILE", "NAME_VARIABLE", "Elector", "FileLease", "LeaseStore", "Record", "Role", "identity", "open_lease"]
