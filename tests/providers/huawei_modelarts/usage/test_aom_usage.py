"""Vectors of AOM in, usage out: the levels, what is a whole and what is not, and anything that an answer may hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.huawei_modelarts.usage.columns import objects
from tests.support.exposition import lines
from tests.support.golden import check_golden
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.families.usage import LEVELS, PROFILING
from trainfleet_exporter.model import (
    Accelerators,
    DeviceUsage,
    Job,
    JobUsage,
    PodUsage,
    Readings,
    Status,
)
from trainfleet_exporter.providers.huawei_modelarts.payloads import Sample
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import Collected, JobNames
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import (
    READINGS,
    UNITS,
    Choice,
    Plan,
    is_complete,
    plans,
)
from trainfleet_exporter.transport.payload import decode_value

GOLDEN = Path(__file__).parent / "golden"
EVERYTHING = {name for reading in READINGS for source in reading.sources for name, _ in source.names}
CPU, NPU_UTIL = "ma_container_cpu_util", "ma_container_npu_util"


def running(job_id: str, *tasks: str, cards: float = 0, kind: Any = "gpu") -> tuple[str, JobNames]:
    """A running job and what it consists of."""
    asked = (Accelerators(kind, "", cards),)
    return job_id, JobNames.of(Job(job_id=job_id, status=Status.RUNNING, accelerators=asked), tasks)


def plan(suffix: str, *names: str, **chosen: Choice) -> Plan:
    """The plan of one reading where AOM has these metrics (all that are known, if none is named)."""
    return next(found for found in plans(set(names) or EVERYTHING, chosen) if found.reading.suffix == suffix)


def row(value: object, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1767595140, value]}


def collected(of: Plan, *answers: list[Any], jobs: dict[str, JobNames]) -> Collected:
    """The answers to the plan's queries, in their order."""
    found = Collected(of, jobs, jobs)
    for query, rows in zip(of.queries, answers, strict=True):
        found.add(query, decoded(rows))
    return settled(found)


def decoded(rows: list[Any]) -> list[Sample | None]:
    """The rows of an answer as they are read from its JSON."""
    return [decode_value(json.dumps(each).encode(), Sample) for each in rows]


def settled(found: Collected) -> Collected:
    """The same with all of its columns made."""
    found.settle()
    return found


def readings(found: Collected) -> list[Readings]:
    """The columns."""
    return [column.readings for column in found.columns]


def card(job_id: str, pod: str, number: int, value: object) -> dict[str, Any]:
    return row(value, service_id=job_id, pod_name=pod, npu_id=str(number))


def values(found: Collected, field: str) -> dict[str, Any]:
    """The field of every object, by the levels' ids."""
    shown: dict[str, Any] = {}
    for item in objects(readings(found)):
        match item:
            case JobUsage():
                shown[item.job_id] = getattr(item.values, field)
            case PodUsage():
                shown[f"{item.job_id}/{item.pod_id}"] = getattr(item.values, field)
    return shown


def test_a_ratio_is_the_mean_of_what_came() -> None:
    jobs = dict([running("a", "worker-0", "worker-1", "worker-2")])
    rows = [row("50", service_id="a", pod_name="worker-0"), row("70.5", service_id="a", pod_name="worker-1")]
    found = collected(plan("cpu_utilization_ratio"), rows, jobs=jobs)
    assert values(found, "cpu") == {"a": 0.6025, "a/worker-0": 0.5, "a/worker-1": 0.705}


def test_a_sum_is_of_the_whole_or_not_at_all() -> None:
    jobs = dict([running("a", "worker-0", "worker-1"), running("b", "worker-0", "worker-1")])
    rows = [
        row("100", service_id="a", pod_name="worker-0"),
        row("28", service_id="a", pod_name="worker-1"),
        row("64", service_id="b", pod_name="worker-0"),
    ]
    found = collected(plan("memory_usage_bytes"), rows, jobs=jobs)
    mib = 2**20
    assert values(found, "memory_bytes") == {
        "a": 128 * mib,
        "a/worker-0": 100 * mib,
        "a/worker-1": 28 * mib,
        "b/worker-0": 64 * mib,
    }


def test_cards_that_are_missing_spoil_sums_and_no_means() -> None:
    jobs = dict([running("a", "worker-0", "worker-1", cards=4, kind="npu")])
    cells = [("worker-0", 0, 40), ("worker-0", 1, 60), ("worker-1", 0, 80)]
    rows = [card("a", pod, number, str(value)) for pod, number, value in cells]
    used = collected(plan("accelerator_memory_usage_bytes"), [], rows, jobs=jobs)
    assert values(used, "accelerator_memory_bytes") == {"a/worker-0": 100 * 2**20}
    ratio = collected(plan("accelerator_utilization_ratio"), [], rows, jobs=jobs)
    assert values(ratio, "accelerator_utilization") == {"a": 0.6, "a/worker-0": 0.5, "a/worker-1": 0.8}
    devices = [item for item in objects(readings(ratio)) if isinstance(item, DeviceUsage)]
    assert [(item.pod_id, item.device, item.accelerator, item.utilization) for item in devices] == [
        ("worker-0", "0", "npu", 0.4),
        ("worker-0", "1", "npu", 0.6),
        ("worker-1", "0", "npu", 0.8),
    ]


def test_health_is_of_cards_only() -> None:
    jobs = dict([running("a", "worker-0", cards=4, kind="npu")])
    healthy, heat = plans(EVERYTHING, {}, profiles=["health"])[-2:]
    rows = [card("a", "worker-0", number, value) for number, value in enumerate(("1", "0", "0.5", "7"))]
    found = collected(healthy, rows, jobs=jobs)
    devices = [item for item in objects(readings(found)) if isinstance(item, DeviceUsage)]
    assert [(item.pod_id, item.device, item.accelerator, item.healthy) for item in devices] == [
        ("worker-0", "0", "npu", 1),
        ("worker-0", "1", "npu", 0),
    ]
    assert found.dropped["out_of_range"] == 2
    found = collected(heat, [card("a", "worker-0", 0, "61.5"), card("a", "worker-0", 1, "201")], jobs=jobs)
    assert [item.temperature_celsius for item in objects(readings(found)) if isinstance(item, DeviceUsage)] == [61.5]
    assert len(found.columns) == 1  # no job or pod has a temperature
    assert found.dropped["out_of_range"] == 1


def test_roles_with_different_cards_have_sums_together_only() -> None:
    jobs = dict([running("a", "server-0", "worker-0", cards=12)])
    four = [card("a", "server-0", number, "1") for number in range(4)]
    eight = [card("a", "worker-0", number, "1") for number in range(8)]
    of = plan("accelerator_power_watts")
    whole = collected(of, [], four + eight, jobs=jobs)
    assert values(whole, "accelerator_power_watts") == {"a": 12, "a/server-0": 4, "a/worker-0": 8}
    partial = collected(of, [], four + eight[:6], jobs=jobs)  # six are half of twelve, and not all of the eight
    assert values(partial, "accelerator_power_watts") == {}


def test_cards_of_both_kinds_are_one_sum_and_two_ratios() -> None:
    asked = (Accelerators("gpu", "a", 1), Accelerators("npu", "b", 1))
    job = Job(job_id="a", status=Status.RUNNING, accelerators=asked)
    jobs = {"a": JobNames.of(job, ("worker-0",))}
    gpu, npu = [row("10", service_id="a", pod_name="worker-0", gpu_id="0")], [card("a", "worker-0", 0, "30")]
    used = collected(plan("accelerator_memory_usage_bytes"), gpu, npu, jobs=jobs)
    assert values(used, "accelerator_memory_bytes")["a"] == 40 * 2**20
    ratio = collected(plan("accelerator_utilization_ratio"), gpu, npu, jobs=jobs)
    text = lines(readings(ratio))
    assert 'trainfleet_job_accelerator_utilization_ratio{provider="p",job_id="a",accelerator="gpu"} 0.1' in text
    assert 'trainfleet_job_accelerator_utilization_ratio{provider="p",job_id="a",accelerator="npu"} 0.3' in text


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        ({"pod_name": "worker-0"}, "worker-0"),
        ({"pod_id": "worker-1"}, "worker-1"),
        ({"pod": "agent-x", "task_id": "worker-0"}, "worker-0"),
        ({"pod_name": "modelarts-job-5f1c-worker-1"}, "worker-1"),
        ({"pod_name": "modelarts-job-5f1c-server-worker-0"}, "server-worker-0"),  # the longest name that fits
        ({"pod_name": "something-else"}, "something-else"),
    ],
)
def test_a_pod_is_known_by_the_task_that_its_label_ends_with(labels: dict[str, str], pod: str) -> None:
    jobs = dict([running("a", "worker-0", "worker-1", "server-worker-0")])
    found = collected(plan("cpu_utilization_ratio"), [row("50", service_id="a", **labels)], jobs=jobs)
    assert values(found, "cpu") == {"a": 0.5, f"a/{pod}": 0.5}


def test_without_a_label_for_pods_there_is_the_job_level_only() -> None:
    jobs = dict([running("a", "worker-0", "worker-1", cards=4, kind="npu"), running("one", "worker-0", cards=1)])
    rows = [row("50", service_id="a"), row("30", service_id="one")]
    assert values(collected(plan("cpu_utilization_ratio"), rows, jobs=jobs), "cpu") == {
        "a": 0.5,
        "one": 0.3,
        "one/worker-0": 0.3,  # of a job with one task it can only be that one
    }
    # A mean over pods is no sum, and a mean over the first cards of all pods is no card.
    assert values(collected(plan("cpu_usage_cores"), rows, jobs=jobs), "cpu_cores") == {"one": 30, "one/worker-0": 30}
    of_cards = [row("50", service_id="a", npu_id="0"), row("70", service_id="a", npu_id="1")]
    found = objects(readings(collected(plan("accelerator_utilization_ratio"), [], of_cards, jobs=jobs)))
    assert [type(item) for item in found] == [JobUsage]
    assert collected(plan("accelerator_power_watts"), [], of_cards, jobs=jobs).job_ids == {"a"}
    assert values(collected(plan("accelerator_power_watts"), [], of_cards, jobs=jobs), "accelerator_power_watts") == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "no_data"),
        ("-1", "no_data"),
        ("-2", "out_of_range"),
        ("+Inf", "out_of_range"),
        ("103", "out_of_range"),
        ("x", "malformed"),
        (None, "malformed"),
        (True, "malformed"),
        ("9" * 400, "malformed"),
    ],
)
def test_what_is_no_reading_is_dropped_and_counted(value: object, reason: str) -> None:
    jobs = dict([running("a", "worker-0")])
    found = collected(plan("memory_utilization_ratio"), [row(value, service_id="a", pod_name="worker-0")], jobs=jobs)
    assert (found.job_ids, found.dropped) == (frozenset(), Counter({reason: 1}))


def test_whose_readings_are_shown() -> None:
    jobs = dict([running("a", "worker-0", "worker-1"), running("twice", "worker-0")])
    rows = [
        row("1", service_id="a", pod_name="worker-0"),
        row("7", service_id="a", pod_name="worker-1"),
        row("2", service_id="a", pod_name="worker-0", pod_id="its successor"),
        row("8", service_id="twice"),
        row("9", service_id="twice"),
        row("9", service_id="twice"),
        row("3", service_id="deleted"),
        row("4", service_id="stopping"),
        row("5", pod_name="worker-0"),
        "no row",
    ]
    of = plan("cpu_utilization_ratio")
    found = Collected(of, jobs, {"a", "twice", "stopping"})
    found.add(of.queries[0], decoded(rows))
    settled(found)
    assert values(found, "cpu") == {
        "a": 0.07,
        "a/worker-1": 0.07,
    }  # which of the two worker-0 is, the answer does not say
    assert found.job_ids == {"a"}
    assert found.dropped == Counter(duplicate=5, unlisted=1, malformed=2)


def test_duplicate_value_leaves_its_sums_absent() -> None:
    jobs = dict([running("a", "worker-0", "worker-1", cards=4, kind="npu")])
    rows = [card("a", pod, number, "1") for pod in ("worker-0", "worker-1") for number in range(2)]
    of = plan("accelerator_power_watts")
    whole = collected(of, [], rows, jobs=jobs)
    assert values(whole, "accelerator_power_watts") == {"a": 4, "a/worker-0": 2, "a/worker-1": 2}
    same = collected(of, [], [*rows, card("a", "worker-0", 0, "1")], jobs=jobs)
    assert values(same, "accelerator_power_watts") == values(whole, "accelerator_power_watts")
    assert same.dropped == {"duplicate": 1}
    twice = collected(of, [], [*rows, card("a", "worker-0", 0, "3")], jobs=jobs)
    assert values(twice, "accelerator_power_watts") == {"a/worker-1": 2}
    devices = [(item.pod_id, item.device) for item in objects(readings(twice)) if isinstance(item, DeviceUsage)]
    assert devices == [("worker-0", "1"), ("worker-1", "0"), ("worker-1", "1")]


def test_of_more_pods_than_tasks_each_is_shown_and_no_whole() -> None:
    """A replaced pod is still reported under its old name for a while: a mean that includes it does not matter."""
    job = Job(job_id="a", status=Status.RUNNING, nodes=2)
    jobs = {"a": JobNames.of(job, ())}
    rows = [row(str(10 * n), service_id="a", pod_name=f"pod-{n}") for n in range(1, 4)]
    pods = {"a/pod-1": 0.1, "a/pod-2": 0.2, "a/pod-3": 0.3}
    assert values(collected(plan("cpu_utilization_ratio"), rows, jobs=jobs), "cpu") == pods
    two = collected(plan("cpu_utilization_ratio"), rows[:2], jobs=jobs)
    assert values(two, "cpu") == {"a": 0.15, "a/pod-1": 0.1, "a/pod-2": 0.2}
    assert "a" not in values(collected(plan("cpu_usage_cores"), rows, jobs=jobs), "cpu_cores")
    assert values(collected(plan("cpu_usage_cores"), rows[:2], jobs=jobs), "cpu_cores")["a"] == 30


def test_cards_of_a_replaced_pod_replace_no_missing_card() -> None:
    asked = (Accelerators("gpu", "", 4),)
    jobs = {"a": JobNames.of(Job(job_id="a", status=Status.RUNNING, nodes=2, accelerators=asked), ())}
    cells = [("old", 0), ("old", 1), ("here", 0), ("new", 0), ("new", 1)]  # of `here` a card is missing
    rows = [row("1", service_id="a", pod_name=pod, gpu_id=str(number)) for pod, number in cells]
    assert values(collected(plan("accelerator_power_watts"), rows, [], jobs=jobs), "accelerator_power_watts") == {}
    assert values(collected(plan("accelerator_power_watts"), rows[3:], [], jobs=jobs), "accelerator_power_watts") == {}
    four = [row("1", service_id="a", pod_name=pod, gpu_id=str(n)) for pod in ("here", "new") for n in range(2)]
    whole = collected(plan("accelerator_power_watts"), four, [], jobs=jobs)
    assert values(whole, "accelerator_power_watts") == {"a": 4, "a/here": 2, "a/new": 2}


def test_a_query_of_the_config_serves_its_level_and_those_above() -> None:
    jobs = dict([running("a", "worker-0", "worker-1", cards=4)])
    pods = Choice('my_network{kind="eth"}', "KiB/s")
    of = plan("network_receive_bytes_per_second", pod_network_receive_bytes_per_second=pods)
    assert [query.promql for query in of.queries] == [pods.promql]  # nothing is left for the table's own metric
    rows = [row("1", service_id="a", pod_name=f"worker-{n}") for n in range(2)]
    assert values(collected(of, rows, jobs=jobs), "network_receive") == {
        "a": 2048,
        "a/worker-0": 1024,
        "a/worker-1": 1024,
    }
    whole = plan("cpu_usage_cores", job_cpu_usage_cores=Choice("sum by (service_id) (x)", "mCore"))
    assert [sorted(query.levels) for query in whole.queries] == [["job"], ["pod"]]
    own, known = [row("1500", service_id="a")], [row("4", service_id="a", pod_name="worker-0")]
    assert values(collected(whole, own, known, jobs=jobs), "cpu_cores") == {"a": 1.5, "a/worker-0": 4}


def test_configured_devices_have_the_kind_of_label_or_job() -> None:
    jobs = dict([running("a", "worker-0", cards=1, kind="npu"), running("b", "worker-0", cards=1)])
    of = plan("accelerator_power_watts", device_power_watts=Choice("power", "kW"))
    rows = [
        row("0.3", service_id="a", pod_name="worker-0", device_id="7"),
        row("0.4", service_id="b", pod_name="worker-0", gpu_id="0"),
    ]
    devices = [item for item in objects(readings(collected(of, rows, jobs=jobs))) if isinstance(item, DeviceUsage)]
    assert [(item.job_id, item.device, item.accelerator, item.power_watts) for item in devices] == [
        ("a", "7", "npu", 300),
        ("b", "0", "gpu", 400),
    ]


def test_queries_are_spent_on_metrics_that_exist_only() -> None:
    assert plans({"go_goroutines"}, {}) == []
    found = plans({CPU, NPU_UTIL, "ma_container_npu_ai_core_util"}, {})
    assert [query.metric for one in found for query in one.queries] == [CPU, NPU_UTIL]
    assert not is_complete(found, plans(None, {}))
    assert is_complete(plans(EVERYTHING, {}), plans(None, {}))
    # Where names cannot be listed, the first one of each source is tried.
    tried = plans(None, {}, profiles=["health"])
    assert len([query for one in tried for query in one.queries]) == sum(len(r.sources) for r in READINGS)


def test_no_query_is_spent_on_what_is_not_exposed() -> None:
    everything = {one.reading.suffix for one in plans(None, {})}
    found = {one.reading.suffix: one for one in plans(None, {}, ["trainfleet_job_*", "trainfleet_pod_*"])}
    of_devices = [reading.measure for reading in READINGS if reading.measure.device is not None]
    assert set(found) == {measure.suffix for measure in of_devices if measure.profile is None}
    assert {measure.profile for measure in of_devices} == {None, "health"}
    assert {level for one in found.values() for query in one.queries for level in query.levels} == {"device"}
    without_memory = {one.reading.suffix for one in plans(None, {}, ["trainfleet_*_memory_*"])}
    assert everything - without_memory == {name for name in everything if "memory" in name}
    assert plans(None, {}, ["trainfleet_job_*", "trainfleet_pod_*", "trainfleet_device_*"]) == []
    own = {"pod_cpu_usage_cores": Choice("cores", "Core")}
    (query,) = plan_without(own, "trainfleet_pod_cpu_usage_cores").queries
    assert (query.promql, query.levels) == ("cores", frozenset({"job"}))  # the job's is made of it
    own |= {"job_cpu_usage_cores": Choice("cores of jobs", "Core")}
    (query,) = plan_without(own, "trainfleet_pod_*").queries
    assert query.promql == "cores of jobs"
    denied = ["trainfleet_job_*", "trainfleet_device_*"]
    assert is_complete(plans(EVERYTHING, own, denied), plans(None, own, denied))


def plan_without(chosen: dict[str, Choice], *deny: str) -> Plan:
    """The plan of CPU cores."""
    return next(one for one in plans(EVERYTHING, chosen, deny) if one.reading.suffix == "cpu_usage_cores")


def test_one_query_asks_for_all_jobs_as_finely_as_it_can() -> None:
    (query,) = plan("cpu_utilization_ratio", CPU).queries
    assert query.text("pod", 600) == (
        "avg by (service_id, pod_name, task_id, task_name, pod_id, pod) "
        '(last_over_time(ma_container_cpu_util{container_name="modelarts-training"}[10m]))'
    )
    assert query.text("job", 90).startswith("avg by (service_id) (")
    assert query.text("job", 90).endswith("[90s]))")
    (cards,) = plan("accelerator_utilization_ratio", NPU_UTIL).queries
    assert "pod, npu_id, gpu_id, " in cards.text("device", 600)


def test_every_family_of_usage_can_be_fed_by_the_config() -> None:
    """The table's names are those of the exposition: a typing error here would hide a family from the config."""
    shown = {
        family.name.removeprefix("trainfleet_") for family in FAMILIES if family.of in (JobUsage, PodUsage, DeviceUsage)
    }
    profiled = {family.suffix for each in PROFILING.values() for level in LEVELS if (family := each.at(level))}
    assert profiled < shown
    health = {"device_healthy", "device_temperature_celsius"}
    assert set(UNITS) == shown - profiled | health, "AOM has no metrics of profilers"


def test_golden() -> None:
    jobs = dict([running("npu", "worker-0", "worker-1", cards=4, kind="npu"), running("cpu", "worker-0")])
    shown: list[object] = []
    for place, of in enumerate(plans(EVERYTHING, {})):
        for query in of.queries:
            found = Collected(of, jobs, jobs)
            if query.accelerator == "gpu":
                continue
            if query.accelerator == "npu":
                cells = [(pod, number) for pod in range(2) for number in range(2)]
                rows = [card("npu", f"worker-{pod}", number, str(10 * place + number)) for pod, number in cells]
            else:
                rows = [row(str(place), service_id=job_id, pod_name="worker-0") for job_id in jobs]
                rows.append(row("90", service_id="npu", pod_name="worker-1"))
            found.add(query, decoded(rows))
            shown += readings(settled(found))
    check_golden(GOLDEN / "aom_usage.txt", lines(shown))


_LABELS = st.dictionaries(
    st.sampled_from(["service_id", "pod_name", "task_id", "npu_id", "gpu_id", "device_id", "other"]),
    st.sampled_from(["a", "b", "worker-0", "x-worker-1", "0", "1", "", "-"]) | st.none() | st.integers(),
)
_VALUE = st.one_of(
    st.floats(allow_nan=True).map(str),
    st.floats(0, 100).map(str),
    st.sampled_from(["NaN", "+Inf", "-1", "", "1e999", "٣"]),
    st.none(),
    st.integers(),
    st.lists(st.integers()),
)
_ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"metric": _LABELS, "value": st.tuples(st.integers(), _VALUE).map(list)}),
        st.recursive(
            st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
        ),
    )
)


@pytest.mark.long
@given(st.sampled_from(plans(EVERYTHING, {})), st.data())
def test_any_answer_gives_unique_series_and_valid_values(of: Plan, data: st.DataObject) -> None:
    jobs = dict([running("a", "worker-0", "worker-1", cards=2, kind="npu"), running("b")])
    found = collected(of, *(data.draw(_ROWS) for _ in of.queries), jobs=jobs)
    shown = [line.rpartition(" ") for line in lines(readings(found)).splitlines()]
    assert len({series for series, _, _ in shown}) == len(shown)
    top = 1.0 if of.reading.measure.quantity == "bounded_ratio" else math.inf
    assert all(0 <= float(value) <= top and math.isfinite(float(value)) for _, _, value in shown)
