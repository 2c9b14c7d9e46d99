"""Alibaba PAI, held to what providers of others are held to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.simulated import SimulatedCloud
from trainfleet_conformance import PretendCloud, ProviderConformance
from trainfleet_exporter.model import Status
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.provider import PLATFORM
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.pai.catalog import WORKSPACES

KEY_ID = "LTAICONFORMANCE"


@pytest.mark.long
class TestAlibabaPai(ProviderConformance):
    """All of its operations that each poll calls, as the simulator serves them."""

    platform = PLATFORM
    statuses = {  # noqa: RUF012
        "Created": Status.CREATING,
        "Creating": Status.CREATING,
        "Queuing": Status.QUEUED,
        "Bidding": Status.QUEUED,
        "Dequeued": Status.STARTING,
        "EnvPreparing": Status.STARTING,
        "SanityChecking": Status.STARTING,
        "Running": Status.RUNNING,
        "Restarting": Status.RESTARTING,
        "Stopping": Status.STOPPING,
        "Succeeded": Status.SUCCEEDED,
        "SucceededReserving": Status.SUCCEEDED,
        "Failed": Status.FAILED,
        "FailedReserving": Status.FAILED,
        "Stopped": Status.STOPPED,
    }
    not_counted = frozenset({"Created", "Dequeued"})
    jobs = 2
    faulted = frozenset({"ListJobs"})  # tests/faults has the others
    recovery_polls = 2  # pods and usage are read of the jobs and quotas that the poll before found

    def status_of(self, word: str) -> Status:
        return jobs.job_status(word)

    def cloud(self, jobs: int) -> PretendCloud:
        secret = self.secret("access key secret")
        simulator = Simulator(5, population=jobs, still=True)
        simulator.sts.permanent = Key(KEY_ID, secret)
        unseen = tuple(room.workspace_id for room in WORKSPACES if not room.member)
        return SimulatedCloud(simulator, "pai", lambda job: job.status, unseen=unseen)

    def config(self, url: str) -> dict[str, Any]:
        every = {"interval": "60s"}
        return {
            "region": "cn-hangzhou",
            "credentials": {"access_key_id": KEY_ID, "access_key_secret": self.secret("access key secret")},
            "endpoints": dict.fromkeys(("dlc", "paistudio", "aiworkspace", "cloudmonitor"), url),
            "collectors": {"job_counts": every, "pods": every, "usage": every, "nodes": every | {"enabled": True}},
        }
