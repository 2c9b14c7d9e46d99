"""Families that rules, dashboards and docs already read and that the exporter does not show yet: delete each with its
arrival, and this module with the last one."""

from __future__ import annotations

PLANNED = frozenset({"trainfleet_job_tensor_flops_per_second"})
