"""The provider against moto, a fake of AWS that others wrote: boto3 makes jobs and metrics, the exporter reads them.

Where moto departs from AWS: every job is Completed at once and has one status in its history, Search knows Equals and
NotEquals only and has no pages and no TotalHits, and there are no training plans. Tests that need a running job set its
status in moto's own store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sagemaker.models import sagemaker_backends
from moto.server import ThreadedMotoServer

from tests.support.configs import exporter_of
from trainfleet_exporter.exposition import Format
from trainfleet_exporter.polling import Runner

REGION = "us-east-1"
CONFIG = """
global: {{poll_interval: 60s}}
providers:
  - name: p
    platform: aws_sagemaker
    region: us-east-1
    credentials: {{access_key_id: testing, secret_access_key: testing{role}}}
    endpoints: {{sagemaker: '{url}', cloudwatch: '{url}', sts: '{url}'}}
    limits: {{requests_per_second: 1000}}
"""


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a fresh moto."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        boto3.client("sagemaker", REGION, endpoint_url=f"http://{host}:{port}")
        sagemaker_backends[DEFAULT_ACCOUNT_ID][REGION].reset()
        server.stop()


class Poller:
    """An exporter that polls moto once for each collector that a test names."""

    def __init__(self, folder: Path, url: str, role: str = "") -> None:
        path = folder / "config.yaml"
        path.write_text(CONFIG.format(url=url, role=role))
        self.exporter = exporter_of(path)

    def runner(self, collector: str) -> Runner:
        return next(runner for runner in self.exporter.runners if runner.state.collector == collector)

    def lines(self) -> list[str]:
        text = self.exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
        return [line.removeprefix("trainfleet_") for line in text.splitlines() if line and line[0] != "#"]

    def value(self, series: str) -> float | None:
        name, _, labels = series.partition("{")
        start = f'{name}{{provider="p",{labels} '
        return next((float(line.removeprefix(start)) for line in self.lines() if line.startswith(start)), None)


def _create(url: str, name: str, kind: str = "ml.p4d.24xlarge", count: int = 2) -> None:
    boto3.client("sagemaker", REGION, endpoint_url=url).create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingInputMode": "File", "TrainingImage": "image"},
        RoleArn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/train",
        OutputDataConfig={"S3OutputPath": "s3://bucket/out"},
        ResourceConfig={"InstanceType": kind, "InstanceCount": count, "VolumeSizeInGB": 10},
        StoppingCondition={"MaxRuntimeInSeconds": 60},
        Tags=[{"Key": "team", "Value": "vision"}],
    )


def _set(name: str, primary: str, secondary: str) -> Any:
    job = sagemaker_backends[DEFAULT_ACCOUNT_ID][REGION].training_jobs[name]
    job.training_job_status, job.secondary_status = primary, secondary
    return job


def test_jobs_of_boto3_have_their_status_times_and_instances(moto: str, tmp_path: Path) -> None:
    before = time.time()
    for name in ("one", "two"):
        _create(moto, name)
    _set("one", "InProgress", "Training")

    async def main() -> None:
        poller = Poller(tmp_path, moto)
        await poller.runner("jobs").tick()
        assert poller.runner("jobs").state.success
        assert poller.value('job_status{job_id="one",status="running"}') == 1
        assert poller.value('job_requested_nodes{job_id="one"}') == 2
        kind = 'accelerator="gpu",accelerator_model="A100"'
        assert poller.value(f'job_requested_accelerators{{job_id="one",{kind}}}') == 16
        created = poller.value('job_created_timestamp_seconds{job_id="one"}')
        started = poller.value('job_started_timestamp_seconds{job_id="one"}')
        assert created is not None
        assert started is not None
        assert before - 1 <= created <= started <= time.time()
        ended = datetime.now(UTC)
        job = _set("one", "Failed", "Failed")
        job.training_end_time = job.last_modified_time = ended
        await poller.runner("jobs").tick()  # Search of moto has no times: the job is looked up
        assert poller.value('job_status{job_id="one",status="failed"}') == 1
        found = poller.value('job_finished_timestamp_seconds{job_id="one"}')
        assert found == pytest.approx(ended.timestamp(), abs=1)
        assert poller.value('jobs_finished_total{workspace_id="default",status="failed"}') == 1
        await poller.exporter.aclose()

    asyncio.run(main())


def test_metrics_of_boto3_come_out_as_ratios(moto: str, tmp_path: Path) -> None:
    _create(moto, "one")
    _set("one", "InProgress", "Training").creation_time = datetime.fromtimestamp(time.time() - 600, UTC)
    monitor = boto3.client("cloudwatch", REGION, endpoint_url=moto)
    given = {"CPUUtilization": 4800.0, "MemoryUtilization": 30.0, "GPUUtilization": 600.0, "GPUMemoryUtilization": 80.0}
    for host, factor in (("one/algo-1", 1.0), ("one/algo-2", 0.5)):
        monitor.put_metric_data(
            Namespace="/aws/sagemaker/TrainingJobs",
            MetricData=[
                {
                    "MetricName": name,
                    "Dimensions": [{"Name": "Host", "Value": host}],
                    "Timestamp": datetime.fromtimestamp(time.time() - 120, UTC),
                    "Value": value * factor,
                    "Unit": "Percent",
                }
                for name, value in given.items()
            ],
        )

    async def main() -> None:
        poller = Poller(tmp_path, moto)
        await poller.runner("jobs").tick()
        await poller.runner("usage").tick()
        assert poller.runner("usage").state.success
        pod = 'job_id="one",pod_id="algo-1"'
        assert poller.value(f"pod_cpu_utilization_ratio{{{pod}}}") == 0.5  # 48 of 96 vCPUs
        assert poller.value(f"pod_memory_utilization_ratio{{{pod}}}") == 0.3
        assert poller.value(f'pod_accelerator_utilization_ratio{{{pod},accelerator="gpu"}}') == 0.75  # 6 of 8 GPUs
        assert poller.value(f'pod_accelerator_memory_utilization_ratio{{{pod},accelerator="gpu"}}') == 0.1
        assert poller.value('job_cpu_utilization_ratio{job_id="one"}') == 0.375
        await poller.exporter.aclose()

    asyncio.run(main())


def test_a_role_is_assumed_at_the_sts_of_moto(moto: str, tmp_path: Path) -> None:
    _create(moto, "one")
    _set("one", "InProgress", "Training")
    role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/watcher"

    async def main() -> None:
        poller = Poller(tmp_path, moto, f", role_arn: '{role}', external_id: outside")
        await poller.runner("jobs").tick()
        assert poller.runner("jobs").state.success
        (provider,) = poller.exporter.providers
        assert provider.identity.origin == f"STS role {role}, with keys of the config file"
        assert provider.identity.expires == pytest.approx(time.time() + 3600, abs=60)
        await poller.exporter.aclose()

    asyncio.run(main())
