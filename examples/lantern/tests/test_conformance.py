"""Lantern passes the conformance kit."""

from __future__ import annotations

from typing import Any

from pretend_lantern import PretendLantern
from trainfleet_conformance import PretendCloud, ProviderConformance
from trainfleet_exporter.model import Status
from trainfleet_lantern import translate
from trainfleet_lantern.provider import PLATFORM


class TestLantern(ProviderConformance):
    """Everything else is in the kit."""

    platform = PLATFORM
    statuses = {  # noqa: RUF012 - as Lantern documents them, not as the code has them
        "created": Status.CREATING,
        "queued": Status.QUEUED,
        "provisioning": Status.STARTING,
        "running": Status.RUNNING,
        "recovering": Status.RESTARTING,
        "stopping": Status.STOPPING,
        "succeeded": Status.SUCCEEDED,
        "failed": Status.FAILED,
        "cancelled": Status.STOPPED,
    }
    samples = {  # noqa: RUF012
        'trainfleet_job_cpu_utilization_ratio{job_id="job-0000"}': 1.3,
        'trainfleet_job_accelerator_utilization_ratio{job_id="job-0000",accelerator="gpu"}': 0.735,
        'trainfleet_pool_capacity_memory_bytes{pool_id="pool-a"}': 4096 * 2**20,
    }

    def status_of(self, word: str) -> Status:
        return translate.status(word)

    def cloud(self, jobs: int) -> PretendCloud:
        return PretendLantern(jobs=jobs, token=self.secret("token", special=False))

    def config(self, url: str) -> dict[str, Any]:
        token = self.secret("token", special=False)
        return {
            "region": "north-1",
            "credentials": {"token": token},
            "endpoints": {"lantern": url},
            "collectors": {"job_counts": {"interval": "60s"}},
        }
