"""AWS SageMaker, held to what providers of others are held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conformance.simulated import SimulatedCloud
from trainfleet_conformance import PretendCloud, ProviderConformance
from trainfleet_exporter.model import Status
from trainfleet_exporter.providers.aws_sagemaker.jobs import TrainingJob, translate
from trainfleet_exporter.providers.aws_sagemaker.provider import PLATFORM
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.sagemaker import catalog
from trainfleet_simulator.sagemaker.training import STATUS, job_id_of, job_name, transitions
from trainfleet_simulator.world import jobs as world

ACCESS_KEY_ID = "AKIACONFORMANCE"
ENDED = {"Stopping", "Completed", "Failed", "Stopped"}


class Account(SimulatedCloud):
    """The simulated account, whose jobs go by their names."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, "sagemaker", self._word_of)

    def live_jobs(self) -> Mapping[str, str]:
        return {job_name(self._world.jobs[job_id]): word for job_id, word in super().live_jobs().items()}

    def forget(self, job_id: str) -> None:
        super().forget(job_id_of(job_id))

    def end(self, job_id: str, word: str) -> None:
        super().end(job_id_of(job_id), word)

    def _word_of(self, job: world.Job) -> str:
        """The status, or the secondary status of a job in progress."""
        status = STATUS[job.status]
        return transitions(job, self._world.now)[-1].status if status == "InProgress" else status


@pytest.mark.long
class TestAwsSageMaker(ProviderConformance):
    """All of its operations that each poll calls, as the simulator serves them."""

    platform = PLATFORM
    statuses = {  # noqa: RUF012
        "Starting": Status.STARTING,
        "Pending": Status.QUEUED,
        "Downloading": Status.STARTING,
        "Training": Status.RUNNING,
        "Uploading": Status.RUNNING,
        "Interrupted": Status.RESTARTING,
        "Restarting": Status.RESTARTING,
        "Stopping": Status.STOPPING,
        "Completed": Status.SUCCEEDED,
        "Failed": Status.FAILED,
        "Stopped": Status.STOPPED,
    }
    jobs = 4
    faulted = frozenset({"Search"})  # tests/faults has the others
    recovery_polls = 2  # usage is read of the jobs that the poll before found

    def status_of(self, word: str) -> Status:
        primary, secondary = (word, "") if word in ENDED else ("InProgress", word)
        row = TrainingJob(training_job_name="j", training_job_status=primary, secondary_status=secondary)
        translated = translate(row)
        assert translated is not None
        return translated[0].status

    def cloud(self, jobs: int) -> PretendCloud:
        secret = self.secret("secret access key")
        simulator = Simulator(5, clouds=("sagemaker",), population=jobs, still=True)
        simulator.aws_sts.permanent = Key(ACCESS_KEY_ID, secret)
        return Account(simulator)

    def config(self, url: str) -> dict[str, Any]:
        every = {"interval": "60s"}
        return {
            "region": catalog.REGION,
            "credentials": {"access_key_id": ACCESS_KEY_ID, "secret_access_key": self.secret("secret access key")},
            "endpoints": dict.fromkeys(("sagemaker", "cloudwatch", "sts"), url),
            "collectors": {"job_counts": every, "usage": every, "nodes": every | {"enabled": True}},
        }
