"""Resources of AWS machine types: vCPUs by their size, accelerators by a table. Other types are unknown.

https://aws.amazon.com/sagemaker/pricing/
https://docs.aws.amazon.com/AWSEC2/latest/InstanceTypes/ac.html
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from trainfleet_exporter.model import Accelerator, Accelerators
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.transport.json_fields import unusable

log = logging.getLogger(__name__)

_SIZE = re.compile(r"ml\.[a-z0-9-]+\.(?:([0-9]{0,3})x)?(large|medium)", re.ASCII)
_ODD_CPUS = {"ml.c4.8xlarge": 36.0, "ml.t3.medium": 2.0}
_ONE_THREAD = re.compile(r"ml\.([a-z]+[0-9]+g[a-z]*|[a-z][78]a|p6e-gb200)\.", re.ASCII)
"""Machine types whose cores have one thread: Graviton, Grace and the later types of AMD."""
_G = {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1, "12xlarge": 4, "24xlarge": 4, "48xlarge": 8}
_FAMILIES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "p2": ("K80", {"xlarge": 1, "8xlarge": 8, "16xlarge": 16}),
    "p3": ("V100", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("V100", {"24xlarge": 8}),
    "p4d": ("A100", {"24xlarge": 8}),
    "p4de": ("A100", {"24xlarge": 8}),
    "p5": ("H100", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("H200", {"48xlarge": 8}),
    "p5en": ("H200", {"48xlarge": 8}),
    "p6-b200": ("B200", {"48xlarge": 8}),
    "p6-b300": ("B300", {"48xlarge": 8}),
    "p6e-gb200": ("GB200", {"36xlarge": 4}),
    "g4dn": ("T4", {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1, "12xlarge": 4}),
    "g5": ("A10G", _G),
    "g6": ("L4", _G),
    "gr6": ("L4", {"4xlarge": 1, "8xlarge": 1}),
    "g6e": ("L40S", _G),
    "g7e": ("RTX-PRO-6000", {"2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
    "trn1": ("Trainium", {"2xlarge": 1, "32xlarge": 16}),
    "trn1n": ("Trainium", {"32xlarge": 16}),
    "trn2": ("Trainium2", {"3xlarge": 1, "48xlarge": 16}),
}
"""By family: the model of its accelerators, and the number in each size."""
_WITHOUT = re.compile(r"ml\.(m|c|r|t|i)[0-9][a-z]*(-flex)?\.[0-9a-z]+", re.ASCII)
"""General machine types without accelerators."""
DEVICES: Mapping[str, Accelerators] = {
    f"ml.{family}.{size}": Accelerators("npu" if family.startswith("trn") else "gpu", model, float(count))
    for family, (model, sizes) in _FAMILIES.items()
    for size, count in sizes.items()
}
"""Accelerators of one instance, by machine type."""


class Group(NamedTuple):
    """Instances of one type."""

    kind: str
    """Their type; empty if it is unknown."""
    number: float | None
    threads: float | None = None
    """Threads of each core that run. If that is one of two, half of the vCPUs do."""


def accelerators(kind: str) -> tuple[Accelerators, ...] | None:
    """Return the accelerators of one instance: empty for general types; None if unknown, which is counted and logged,
    so that low sums are seen."""
    if kind in DEVICES:
        return (DEVICES[kind],)
    if _WITHOUT.fullmatch(kind):
        return ()
    if kind:
        unusable(kind, "no_data")
        _log_unknown(kind)
    return None


@lru_cache(maxsize=256)
def _log_unknown(kind: str) -> None:
    """Log each type once."""
    log.warning("unknown instance type; its accelerators are not counted", extra=fields(instance_type=kind[:64]))


def cpu_cores(kind: str, threads: float | None = None) -> float | None:
    """Return the vCPUs of one instance: four for each `xlarge` in its name, two for a `large`, one for a `medium`. None
    if unknown. `threads` as in Group."""
    found, match = _ODD_CPUS.get(kind), _SIZE.fullmatch(kind)
    if found is None and match is not None:
        found = 4.0 * int(match[1] or 1) if match[1] is not None else 2.0 if match[2] == "large" else 1.0
    return found / 2 if found and threads == 1 and not _ONE_THREAD.match(kind) else found


def accelerators_of(groups: Iterable[Group]) -> tuple[Accelerators, ...]:
    """Return the accelerators of all groups by kind and model; empty if there are none, or those of a group are
    unknown."""
    counts: dict[tuple[Accelerator, str], float] = {}
    for group in groups:
        each = accelerators(group.kind)
        if each is None or group.number is None:
            return ()
        for found in each:
            counts[found.kind, found.model] = counts.get((found.kind, found.model), 0.0) + group.number * found.count
    return tuple(Accelerators(kind, model, count) for (kind, model), count in counts.items())


def cpu_cores_of(groups: Iterable[Group]) -> float | None:
    return total_of(groups, lambda group: cpu_cores(group.kind, group.threads))


def total_of(groups: Iterable[Group], each: Callable[[Group], float | None]) -> float | None:
    """Return the sum of what each instance has; None without groups, or if that of a group is unknown."""
    found = [None if group.number is None or (one := each(group)) is None else group.number * one for group in groups]
    known = [amount for amount in found if amount is not None]
    return math.fsum(known) if known and len(known) == len(found) else None
