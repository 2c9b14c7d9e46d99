"""The fuzzed functions of bytes, which raise only if the exporter has a bug."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from fuzz.answers import answer
from trainfleet_exporter.config import Config, load_config, redacted
from trainfleet_exporter.config.schema import ProviderConfig
from trainfleet_exporter.errors import BadAnswer, ConfigError, Fault
from trainfleet_exporter.exposition import Format, Renderer, RenderSettings, accepts_gzip, choose
from trainfleet_exporter.families import KEYS
from trainfleet_exporter.fleet.usage import NewestReadings, Subjects, page_readings
from trainfleet_exporter.providers.alibaba_pai import jobs as pai
from trainfleet_exporter.providers.alibaba_pai import pools as pai_pools
from trainfleet_exporter.providers.alibaba_pai import usage
from trainfleet_exporter.providers.alibaba_pai.config import Usage
from trainfleet_exporter.providers.alibaba_pai.history import details_of
from trainfleet_exporter.providers.alibaba_pai.metrics import JOB_FAMILIES, MetricMeta, feeds
from trainfleet_exporter.providers.aws_sagemaker import jobs as sagemaker_jobs
from trainfleet_exporter.providers.aws_sagemaker import pools as sagemaker_pools
from trainfleet_exporter.providers.aws_sagemaker import usage as sagemaker_usage
from trainfleet_exporter.providers.huawei_modelarts import history, nodes, past, task_metrics, v1
from trainfleet_exporter.providers.huawei_modelarts import jobs as modelarts
from trainfleet_exporter.providers.huawei_modelarts import pools as modelarts_pools
from trainfleet_exporter.providers.huawei_modelarts.usage import MetricNames, QueryAnswer, Series
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.transport.body import decode_json
from trainfleet_exporter.transport.payload import NotJson, decode, decode_value
from trainfleet_exporter.web.access import credentials
from trainfleet_exporter.web.web_config import read_web_config

T = TypeVar("T")
Row = Mapping[str, Any]
Reader = Callable[[Row], object]

_NOW = 1_767_323_045.0
_ENVIRON = {"KEY": "value", "EMPTY": "", "NUMBER": "7", "HOME": "/nowhere"}
_RENDERER = Renderer(RenderSettings(job_labels=("team",)))


@cache
def _folder() -> Path:
    """Return the folder of this process, in memory and not on disk."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))


@cache
def _platforms() -> Mapping[str, type[ProviderConfig]]:
    return {name: platform.config for name, platform in installed_platforms().items()}


def _clear(faults: tuple[Fault, ...]) -> None:
    """Check that each error is one printable line."""
    assert faults
    for fault in faults:
        assert str(fault).isprintable(), fault
        assert fault.message


def config(data: bytes) -> None:
    """Load a config file: it gives a Config that can be shown, or errors."""
    path = _folder() / "config.yaml"
    path.write_bytes(data)
    try:
        found = load_config(path, environ=_ENVIRON, platforms=_platforms())
    except ConfigError as error:
        _clear(error.faults)
    else:
        assert isinstance(found, Config)
        assert redacted(found)


def web_config(data: bytes) -> None:
    """Load a web config file: it gives settings or errors."""
    path = _folder() / "web.yaml"
    path.write_bytes(data)
    try:
        found = read_web_config(path)
    except ConfigError as error:
        _clear(error.faults)
    else:
        assert found.files[0] == path


def accept(data: bytes) -> None:
    """Parse headers of a scrape, one on each line: Accept, Accept-Encoding, Authorization."""
    given, coding, login, *_ = [*data.split(b"\n"), b"", b""]
    assert choose(given.decode("latin-1")) in Format
    assert accepts_gzip(coding.decode("latin-1")) in {True, False}
    found = credentials([login])
    assert found is None or b":" not in found[0]


def _rows(payload: object) -> Iterator[Row]:
    """Return an object and every object in its lists."""
    if isinstance(payload, dict):
        yield payload
        for value in payload.values():
            if isinstance(value, list):
                yield from (item for item in value if isinstance(item, dict))


def _show(found: object) -> None:
    """Check that Prometheus can read the lines of a row."""
    objects = list(found) if isinstance(found, list | tuple) else [found]
    shown = [one for one in objects if type(one) in KEYS]
    for pieces in _RENDERER.render("p", shown).lines.values():
        text = b"".join(pieces).decode()
        for family in text_string_to_metric_families(text):
            assert family.samples


def _translate(payload: object, readers: Iterable[Reader]) -> None:
    """Translate every object of a response as a row of each kind. Show the objects that are made of it."""
    for row in _rows(payload):
        for translate in readers:
            _show(translate(row))


def _decoding(*pages: type[object]) -> list[Reader]:
    """Return functions that only decode rows."""
    return [_reading(page, lambda found: found) for page in pages]


def _reading(into: type[T], translate: Callable[[T], object]) -> Reader:
    """Return a function that translates a decoded row."""

    def read(row: Row) -> object:
        given = decode_value(json.dumps(row).encode(), into)
        return None if given is None else translate(given)

    return read


_MACHINE = pai.Size(cpu_cores=8.0, memory_bytes=2.0**36, gpus=1.0, gpu_model="T4")
_OF_PAI: tuple[Reader, ...] = (
    _reading(pai.JobRow, pai.job),
    _reading(pai.JobRow, pai.pods),
    _reading(pai.JobRow, lambda row: details_of(row.status_history, row.restart_record)),
    _reading(pai_pools.QuotaRow, pai_pools.pool),
    _reading(pai_pools.QuotaRow, pai_pools.quota),
    _reading(pai_pools.NodeRow, lambda row: pai_pools.node(row, "quota")),
    _reading(pai_pools.WorkloadRow, lambda row: pai_pools.queue([row, row])),
    _reading(pai.EcsSpec, pai.ecs_size),
    _reading(pai.JobRow, pai.needs_sizes),
    _reading(pai.JobRow, lambda row: pai.job(row, sizes={"ecs.gn7": _MACHINE}, models={"q": "A10"})),
)


(_CARDS,) = feeds({"CARD_GPU_DUTY_CYCLE": MetricMeta("CARD_GPU_DUTY_CYCLE", "%")}, JOB_FAMILIES, {})[0].values()
_OF_JOBS = usage.metric_types(Usage())


def alibaba_pai(data: bytes) -> None:
    """Translate a response of any operation of PAI: its rows become objects, or are dropped."""
    payload = decode_json(data)
    _translate(payload, _OF_PAI)
    if isinstance(payload, dict):
        metrics, subjects = decode(data, usage.JobMetrics), Subjects()
        newest = NewestReadings("pod", {"dlc1": 0.0}, subjects, now=_NOW, max_age=300)
        usage.take(metrics, newest, "dlc1")
        _show(page_readings(usage.job_columns([(each, newest) for each in _OF_JOBS])))
        points = payload.get("Datapoints")
        if isinstance(points, list):
            cards = NewestReadings(_CARDS.level, {"dlc1": 0.0}, subjects, now=_NOW, max_age=300)
            cards.take(*(usage.readings(_CARDS, json.dumps(points), usage.quota_of({}, "")) or ([], [], [])))
            _show(page_readings(cards.of_families(_CARDS.targets, period=0)))


def _usage_of(answer: task_metrics.Metrics) -> object:
    job = v1.job(v1.JobRow(1), v1.Version(), workspace_id="0")
    readings = task_metrics.ArrayReadings(job.job_id, task_metrics.JobParts(job, ["pod"]))
    readings.add_pod("pod", answer)
    readings.add_cards("pod", answer)
    return readings.shown("task")


def _usage_of_pool(answer: modelarts_pools.PoolMonitor) -> object:
    try:
        return page_readings(modelarts_pools.monitored(answer, "pool", Counter(), now=_NOW, max_age=300))
    except BadAnswer as error:
        assert str(error).isprintable()
        return None


_OF_MODELARTS: tuple[Reader, ...] = (
    _reading(modelarts.JobRow, modelarts.job),
    _reading(modelarts.JobRow, modelarts.tasks),
    _reading(modelarts_pools.PoolRow, modelarts_pools.pool),
    _reading(modelarts_pools.RuntimeRow, modelarts_pools.pool_amounts),
    _reading(modelarts_pools.WorkloadCounts, lambda row: modelarts_pools.workloads("pool", [row], malformed=0)),
    _reading(task_metrics.Metrics, _usage_of),
    _reading(v1.Version, lambda version: v1.job(v1.JobRow(1), version, workspace_id="0")),
    _reading(v1.JobRow, lambda row: v1.job(row, v1.Version(), workspace_id="0")),
    _reading(v1.JobRow, lambda row: v1.counts("0", [row], since=0.0)),
    _reading(v1.LogFileNames, lambda answer: v1.pods("job", answer)),
    _reading(modelarts_pools.PoolMonitor, _usage_of_pool),
    _reading(nodes.NodeRow, lambda row: nodes.node("pool", row)),
    _reading(modelarts_pools.WorkloadRow, lambda row: modelarts_pools.places([row, row])),
    _reading(modelarts_pools.WorkloadRow, lambda row: modelarts_pools.queue("pool", [row], ["gpu"])),
    _reading(modelarts.JobRow, lambda row: past.job_life(row, shown_tags=())),
    _reading(history.JobStatus, lambda state: history.records(state, modelarts.JOB_STATUS["Running"], _NOW)),
    _reading(v1.JobRow, v1.is_live),
    *_decoding(modelarts.WorkspacesPage, modelarts.JobsPage, modelarts.Quotas, v1.JobsPage, v1.Versions),
    *_decoding(modelarts_pools.Items[modelarts_pools.PoolRow], modelarts_pools.Items[modelarts_pools.RuntimeRow]),
    *_decoding(modelarts_pools.StatisticsAnswer, modelarts_pools.WorkloadsPage, nodes.NodesPage),
)


def huawei_modelarts(data: bytes) -> None:
    """Translate a response of any operation of ModelArts or AOM."""
    _translate(decode_json(data), _OF_MODELARTS)
    _aom(data)


def _aom(data: bytes) -> None:
    """Translate a response of any operation of AOM, or a row of one."""
    decode_value(data, Series)
    with suppress(NotJson, BadAnswer):
        decode(data, MetricNames)
        answer = decode(data, QueryAnswer)
        for raw in (answer.data and answer.data.result) or ():
            decode_value(raw, Series)


_OF_SAGEMAKER: tuple[Reader, ...] = (
    _reading(sagemaker_jobs.TrainingJob, lambda row: (sagemaker_jobs.translate(row) or ([],))[0]),
    _reading(sagemaker_pools.ClusterGroup, lambda row: sagemaker_pools.group_pool("cluster", row, [])),
    _reading(sagemaker_pools.TrainingPlan, sagemaker_pools.plan_pool),
    _reading(sagemaker_pools.ClusterNode, lambda row: sagemaker_pools.cluster_node("cluster", row, {})),
    *_decoding(sagemaker_jobs.SearchPage, sagemaker_usage.MetricData),
    *_decoding(sagemaker_pools.Clusters, sagemaker_pools.ClusterNodes, sagemaker_pools.TrainingPlans),
)


def aws_sagemaker(data: bytes) -> None:
    """Translate a response of any operation of SageMaker or CloudWatch."""
    _translate(decode_json(data), _OF_SAGEMAKER)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "config": config,
    "web_config": web_config,
    "accept": accept,
    "answer": answer,
    "alibaba_pai": alibaba_pai,
    "aws_sagemaker": aws_sagemaker,
    "huawei_modelarts": huawei_modelarts,
}
"""Targets by name, which is also the name of the archive in the corpus."""
