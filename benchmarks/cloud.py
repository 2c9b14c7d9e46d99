"""A cloud for benchmarks: a fleet of any size behind PAI's APIs, on a bare loopback server that needs little CPU.

The simulated clouds are exact and slow. This cloud only responds to correct requests. `python -m benchmarks.cloud JOBS
PODS` prints its address and serves until it is stopped. `/-/change?jobs=0.1&usage=1&still=0` replaces a tenth of the
jobs and changes every reading. Durations always grow. Readings are of the previous minute. With `still=1`, their time
stays the same until they change.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from trainfleet_simulator import Listener

WORKSPACE = "100001"
ACCOUNT = "1000000000000001"
POD_METRICS = {
    "POD_CPU_UTIL": "%",
    "POD_MEMORY_UTIL": "%",
    "POD_CPU_USED": "Core",
    "POD_MEMORY_USED": "MiB",
    "POD_GPU_ACCELERATOR_DUTTY_UTIL": "%",
    "POD_GPU_ACCELERATOR_MEMORY_UTIL": "%",
    "POD_GPU_MEMORY_USED": "MiB",
    "POD_GPU_MEMORY_TOTAL": "MiB",
    "POD_NETWORK_RECEVICE_RATE": "MB/s",
    "POD_NETWORK_TRANSMIT_RATE": "MB/s",
    "POD_DISK_READ_RATE": "Bytes/s",
    "POD_DISK_WRITE_RATE": "Bytes/s",
}
"""One reading of each pod: twelve families."""
_PAGE = 1440


def config(url: str) -> str:
    """Return a config file for the exporter that polls this cloud, with the collectors that read lists."""
    return f"""\
global:
  poll_interval: 120s
  poll_timeout: 119s
providers:
  - name: bench
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {{access_key_id: LTAIBENCHMARK, access_key_secret: benchmark-secret}}
    endpoints: {{dlc: {url}, paistudio: {url}, aiworkspace: {url}, cloudmonitor: {url}}}
    collectors:
      pods: {{enabled: false}}
      pools: {{enabled: false}}
      pool_workloads: {{enabled: false}}
      usage: {{source: cloudmonitor}}
    limits: {{requests_per_second: 1000, concurrency: 8}}
"""


class Fleet:
    """Running jobs with pods. They depend only on the number of changes."""

    def __init__(self, jobs: int, pods: int) -> None:
        self._pods = pods
        self._born = [0] * jobs
        """The change in which each job began."""
        self._change = 0
        self._usage = 0
        self._read_at: int | None = None
        """Constant time of all readings, in Unix milliseconds; None if it changes."""
        self._next = 0
        self._started = int(time.time()) - 86400
        self._jobs: dict[int, str] = {}
        """Each job's row with a gap for its duration."""

    def change(self, *, jobs: float = 0.0, usage: bool = False, still: bool = False) -> None:
        """Replace this share of the jobs, the oldest first. With `usage`, change every reading; with `still`, keep
        their time."""
        self._change += 1
        self._usage += usage
        if not still:
            self._read_at = None
        elif usage or self._read_at is None:
            self._read_at = _minute_before()
        for _ in range(round(len(self._born) * jobs)):
            self._born[self._next] = self._change
            self._jobs.pop(self._next, None)
            self._next = (self._next + 1) % len(self._born)

    def list_jobs(self, query: dict[str, str]) -> str:
        """DLC ListJobs."""
        found = range(len(self._born) if query.get("Status") == "Running" else 0)
        size, number = int(query.get("PageSize", "10")), int(query.get("PageNumber", "1"))
        page = found[(number - 1) * size : number * size]
        return f'{{"TotalCount":{len(found)},"Jobs":[{",".join(map(self._row, page))}],"RequestId":"b"}}'

    def get_job(self, job_id: str) -> str:
        """DLC GetJob, also of a job that was replaced while the exporter read the list."""
        number = int(job_id[3:11], 16)
        return self._row(number) if job_id == self._job_id(number) else '{"Code":"404","Message":"no such job"}'

    def catalogue(self, query: dict[str, str]) -> str:
        """CloudMonitor DescribeMetricMetaList."""
        rows = [
            {
                "MetricName": name,
                "Unit": unit,
                "Dimensions": "userId,regionId,workspaceId,jobId,pod",
                "Periods": "60,300,900",
                "Statistics": "Average,Minimum,Maximum",
            }
            for name, unit in POD_METRICS.items()
            if query.get("Namespace") == "acs_pai_dlc"
        ]
        body = {"Code": "200", "Success": True, "TotalCount": str(len(rows)), "Resources": {"Resource": rows}}
        return json.dumps(body)

    def last(self, query: dict[str, str]) -> str:
        """CloudMonitor DescribeMetricLast: a text that holds JSON."""
        total = len(self._born) * self._pods
        start = int(query.get("NextToken") or 0)
        level = (list(POD_METRICS).index(query["MetricName"]) + 1) * 7.0 + self._usage * 0.37
        at = _minute_before() if self._read_at is None else self._read_at
        points = [self._point(number, at, level) for number in range(start, min(start + _PAGE, total))]
        token = f'"NextToken":"{start + _PAGE}",' if start + _PAGE < total else ""
        return f'{{"Code":"200","Success":true,"Period":"60",{token}"Datapoints":"[{",".join(points)}]"}}'

    def _point(self, number: int, at: int, level: float) -> str:
        job, place = divmod(number, self._pods)
        job_id = self._job_id(job)
        value = (level + number * 0.0137) % 100
        return (
            f'{{\\"timestamp\\":{at},\\"userId\\":\\"{ACCOUNT}\\",\\"regionId\\":\\"cn-hangzhou\\",'
            f'\\"workspaceId\\":\\"{WORKSPACE}\\",\\"jobId\\":\\"{job_id}\\",'
            f'\\"pod\\":\\"{job_id}-worker-{place}\\",\\"Average\\":{value:.4f},'
            f'\\"Minimum\\":{value * 0.95:.4f},\\"Maximum\\":{min(value * 1.05, 100):.4f}}}'
        )

    def _job_id(self, number: int) -> str:
        return f"dlc{number:08x}{self._born[number]:05x}"

    def _row(self, number: int) -> str:
        if number not in self._jobs:
            self._jobs[number] = json.dumps(self._facts(number))
        duration = int(time.time()) - self._started - number % 3600
        return self._jobs[number].replace('"Duration": 0', f'"Duration": {duration}')

    def _facts(self, number: int) -> dict[str, object]:
        born = self._born[number]
        began = self._started + number % 3600 + born
        return {
            "JobId": self._job_id(number),
            "DisplayName": f"pretrain-{number}-{born}",
            "JobType": "PyTorchJob",
            "Status": "Running",
            "SubStatus": "",
            "ReasonCode": "",
            "ReasonMessage": "",
            "WorkspaceId": WORKSPACE,
            "WorkspaceName": "bench",
            "UserId": f"20000000000000{number % 97:02}",
            "Username": f"user-{number % 97}",
            "TenantId": ACCOUNT,
            "ResourceId": f"quota{number % 7}",
            "ResourceType": "Lingjun",
            "ResourceLevel": "L0",
            "Priority": 1 + number % 9,
            "Duration": 0,
            "GmtCreateTime": _iso(began),
            "GmtSubmittedTime": _iso(began + 3),
            "GmtRunningTime": _iso(began + 60),
            "GmtModifiedTime": _iso(began + 60),
            "RequestCPU": 96 * self._pods,
            "RequestGPU": str(8 * self._pods),
            "RequestMemory": f"{800 * self._pods}Gi",
            "NodeCount": str(self._pods),
            "RestartTimes": str(number % 3),
            "JobSpecs": [
                {
                    "Type": "Worker",
                    "PodCount": self._pods,
                    "Image": "registry-vpc.cn-hangzhou.aliyuncs.com/bench/train:1.0",
                    "EcsSpec": "",
                    "UseSpotInstance": False,
                    "ResourceConfig": {"CPU": "96", "GPU": "8", "Memory": "800Gi", "GPUType": "GU8T"},
                }
            ],
            "UserCommand": f"python train.py --name pretrain-{number}",
            "Envs": {"NCCL_DEBUG": "INFO"},
            "Settings": {"Tags": {"team": f"team-{number % 23}", "project": f"project-{number % 5}"}},
            "DataSources": [],
            "ThirdpartyLibs": [],
            "Pods": None,
        }


def _minute_before() -> int:
    return int(time.time() - 60) // 60 * 60_000


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


_WORKSPACES = json.dumps(
    {"TotalCount": 1, "Workspaces": [{"WorkspaceId": WORKSPACE, "WorkspaceName": "bench", "Status": "ENABLED"}]}
)
_NOTHING = '{"TotalCount":0,"Quotas":[],"EcsSpecs":[]}'


def serve(fleet: Fleet) -> Listener:
    """Serve a fleet on a free port of the loopback address, within the running loop."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        query = dict(parse_qsl(scope["query_string"].decode()))
        action = dict(scope["headers"]).get(b"x-acs-action", b"").decode()
        body = _answer(fleet, action, scope["path"], query)
        await Response(body, media_type="application/json")(scope, receive, send)

    return Listener(app)


def _answer(fleet: Fleet, action: str, path: str, query: dict[str, str]) -> str:
    match action:
        case "ListJobs":
            return fleet.list_jobs(query)
        case "GetJob":
            return fleet.get_job(path.rsplit("/", 1)[1])
        case "DescribeMetricLast":
            return fleet.last(query)
        case "DescribeMetricMetaList":
            return fleet.catalogue(query)
        case "ListWorkspaces":
            return _WORKSPACES
    if path == "/-/change":
        fleet.change(jobs=float(query["jobs"]), usage=query["usage"] == "1", still=query["still"] == "1")
    return _NOTHING


async def _main() -> None:
    listener = serve(Fleet(*map(int, sys.argv[1:])))
    print(json.dumps({"url": listener.url}), flush=True)
    await asyncio.sleep(math.inf)


if __name__ == "__main__":
    asyncio.run(_main())
