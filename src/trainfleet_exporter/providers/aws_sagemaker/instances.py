"""Resources of AWS machine types: vCPUs by their size, accelerators by a table. Other types are unknown.

https://aws.amazon.com/sagemaker/pricing/
https://docs.aws.amazon.com/AWSEC2/latest/InstanceTypes/ac.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from trainfleet_exporter.model import Accelerators

_SIZE = re.compile(r"ml\.[a-z0-9-]+\.([0-9]{0,3})xlarge", re.ASCII)
_LARGE = re.compile(r"ml\.[a-z0-9-]+\.large", re.ASCII)
_ODD_CPUS = {"ml.c4.8xlarge": 36.0, "ml.t3.medium": 2.0}
_G = {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1, "12xlarge": 4, "24xlarge": 4, "48xlarge": 8}
_GPUS: Mapping[str, tuple[str, Mapping[str, int]]] = {
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
}
"""By family: the model of its GPUs, and the number in each size."""
_NPUS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "trn1": ("Trainium", {"2xlarge": 1, "32xlarge": 16}),
    "trn1n": ("Trainium", {"32xlarge": 16}),
    "trn2": ("Trainium2", {"3xlarge": 1, "48xlarge": 16}),
}
"""The same for chips of AWS."""
_WITHOUT = re.compile(r"ml\.(m|c|r|t|i)[0-9][a-z]*(-flex)?\.[0-9a-z]+", re.ASCII)
"""General machine types without accelerators."""


def _devices() -> Mapping[str, Accelerators]:
    found = {}
    for kind, families in (("gpu", _GPUS), ("npu", _NPUS)):
        for family, (model, sizes) in families.items():
            for size, count in sizes.items():
                found[f"ml.{family}.{size}"] = Accelerators(kind, model, float(count))  # type: ignore[arg-type]
    return MappingProxyType(found)


DEVICES: Mapping[str, Accelerators] = _devices()
"""Accelerators of one instance, by machine type."""


def accelerators(instance_type: str) -> Accelerators | None:
    """Return the accelerators of one instance: 0 for general types, None if unknown."""
    if instance_type in DEVICES:
        return DEVICES[instance_type]
    return Accelerators("gpu", "", 0.0) if _WITHOUT.fullmatch(instance_type) else None


def cpu_cores(instance_type: str) -> float | None:
    """Return the vCPUs of one instance: four for each `xlarge` in its name, two for a `large`. None if unknown."""
    if instance_type in _ODD_CPUS:
        return _ODD_CPUS[instance_type]
    if _LARGE.fullmatch(instance_type):
        return 2.0
    match = _SIZE.fullmatch(instance_type)
    return 4.0 * int(match[1] or 1) if match else None
