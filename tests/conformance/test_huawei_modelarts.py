"""Huawei ModelArts, held to what providers of others are held to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.simulated import SimulatedCloud
from trainfleet_conformance import PretendCloud, ProviderConformance
from trainfleet_exporter.model import Status
from trainfleet_exporter.providers.huawei_modelarts import jobs
from trainfleet_exporter.providers.huawei_modelarts.history import JobStatus
from trainfleet_exporter.providers.huawei_modelarts.jobs import JobMetadata, JobRow
from trainfleet_exporter.providers.huawei_modelarts.provider import PLATFORM
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.job_rows import phase

ACCESS_KEY = "HUAWEICONFORMANCE"


@pytest.mark.long
class TestHuaweiModelArts(ProviderConformance):
    """All of its operations that each poll calls, as the simulator serves them."""

    platform = PLATFORM
    statuses = {  # noqa: RUF012
        "Creating": Status.CREATING,
        "Pending": Status.QUEUED,
        "Running": Status.RUNNING,
        "Terminating": Status.STOPPING,
        "Completed": Status.SUCCEEDED,
        "Failed": Status.FAILED,
        "Abnormal": Status.FAILED,
        "Terminated": Status.STOPPED,
    }
    jobs = 4
    faulted = frozenset({"ListTrainingJobs"})  # tests/faults has the others
    recovery_polls = 2  # queues and usage are read of the jobs and pools that the poll before found
    without_right = frozenset(
        # Their pages name none.
        {"ListPoolNodes", "ListScheduledEvents", "ListWorkloads", "ShowPoolRuntimeMetrics", "ShowWorkloadStatistics"}
    )

    def status_of(self, word: str) -> Status:
        job = jobs.job(JobRow(metadata=JobMetadata("j"), status=JobStatus(word)))
        assert job is not None
        return job.status

    def cloud(self, jobs: int) -> PretendCloud:
        secret = self.secret("secret key")
        simulator = Simulator(5, clouds=("modelarts",), population=jobs, still=True)
        simulator.agency.permanent = Key(ACCESS_KEY, secret)
        return SimulatedCloud(simulator, "modelarts", phase)

    def config(self, url: str) -> dict[str, Any]:
        every = {"interval": "60s"}
        return {
            "region": catalog.REGION,
            "project_id": catalog.PROJECT_ID,
            "credentials": {"access_key": ACCESS_KEY, "secret_key": self.secret("secret key")},
            "endpoints": dict.fromkeys(("modelarts", "iam", "aom"), url),
            "collectors": {
                "job_counts": every,
                "usage": every,
                "nodes": every | {"enabled": True},
                "maintenance": every | {"enabled": True},
            },
        }
