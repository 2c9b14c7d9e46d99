"""Jobs and readings of a scripted project, and a watch over what polls publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.providers.huawei_modelarts.cloud import Cloud, Row, job, ms
from tests.support.fleet import Fleet
from trainfleet_exporter.app.exporter import Exporter

FleetOf = Callable[..., AbstractAsyncContextManager[tuple[Cloud, Fleet]]]
CPU, MEMORY = "ma_container_cpu_util", "ma_container_memory_util"
NPU, USED = "ma_container_npu_util", "ma_container_cpu_used_core"
ASCEND = {"main_container_allocated_resources": {"accelerator_num": 1, "accelerator_type": "ascend-snt9b"}}
INTERVAL = 120.0


class Page:
    """Watches every change of what is published: no series is ever in two parts, or twice in one."""

    def __init__(self, exporter: Exporter) -> None:
        self.faults: list[str] = []
        self.changes = 0
        self._parts: dict[Hashable, dict[str, list[str]]] = {}
        """By part and family, the names and labels of the series."""
        self._shown: Counter[str] = Counter()
        store = exporter.page_store
        put, drop = store.put, store.drop

        def watched_put(part: Hashable, lines: Mapping[str, Any], **given: Any) -> None:
            put(part, lines, **given)
            self._replace(part, {family: _series_of(b"".join(texts)) for family, texts in lines.items()})

        def watched_drop(part: Hashable) -> None:
            drop(part)
            self._replace(part, {})

        store.put, store.drop = watched_put, watched_drop  # type: ignore[method-assign]  # watched from here on

    def _replace(self, part: Hashable, families: dict[str, list[str]]) -> None:
        self.changes += 1
        for lines in self._parts.pop(part, {}).values():
            self._shown.subtract(lines)
        self._parts[part] = families
        for lines in families.values():
            self._shown.update(lines)
            self.faults += [line for line in lines if self._shown[line] > 1]


def _series_of(text: bytes) -> list[str]:
    """The series of some lines, without their values."""
    return [line.rpartition(" ")[0] for line in text.decode().splitlines()]


def percent(**cpu: float) -> Row:
    """The readings of a task that uses these percent of its CPU."""
    return {"metrics": [{"metric": "cpuUsage", "value": list(cpu.values())}]}


def series(job_id: str, value: object, **labels: str) -> tuple[Row, object]:
    return {"service_id": job_id, "pod_name": "worker-0", "pool_id": "pool-1", **labels}, value


def new_job(job_id: str, age: float = 0.0, **given: Any) -> Row:
    """A job that began so many seconds before the stepped clock's start (or after, if negative)."""
    row = job(job_id, start_time=ms(-age), **given)
    row["metadata"]["create_time"] = ms(-age)
    return row


async def source(fleet: Fleet, job_id: str) -> str | None:
    """Where the usage of a job comes from."""
    mark = f'job_id="{job_id}",source="'
    found = [line.partition(mark)[2].partition('"')[0] for line in await fleet.lines("job_usage_info") if mark in line]
    assert len(found) <= 1
    return found[0] if found else None


def asked(cloud: Cloud, job_id: str) -> int:
    """How many calls for task metrics a job has cost."""
    return len(cloud.called(f"/{job_id}/metrics/"))
