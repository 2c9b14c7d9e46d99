"""The queries of docs/faq.md and docs/joins.md return the right results on series of all their exporters."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT, Block, blocks
from tests.support.programs import need
from trainfleet_exporter.families import FAMILIES, KEYS

FAQ = [block for name in ("faq", "joins") for block in blocks(ROOT / "docs" / f"{name}.md", "promql")]
_PAI, _MA = 'provider="pai-hangzhou"', 'provider="modelarts-north4"'
_OWNER = (
    'job_type="PyTorchJob",workspace_id="1",pool_id="q1",user_id="7",resource_type="Lingjun",payment_type="PrePaid"'
)
_USER = 'user_id="7",user_name="alice",accelerator="gpu",accelerator_model="GU8T"'
_CARD = 'device="nvidia0",modelName="NVIDIA A10",Hostname="node-1",container="c",namespace="n",instance="10.0.0.1:9400"'
_CHIP = 'model_name="910B",namespace="",pod_name="",container_name="",vdie_id="v",instance="10.1.0.5:8082"'
SERIES = {  # values that a float holds exactly, because promtool compares exactly
    # Two jobs of one user on PAI, of which the second has failed, and a job on ModelArts.
    f'trainfleet_job_info{{{_PAI},job_id="a",job_name="llm",user_name="alice",{_OWNER}}}': 1,
    f'trainfleet_job_info{{{_PAI},job_id="b",job_name="cv",user_name="alice",{_OWNER}}}': 1,
    f'trainfleet_job_info{{{_MA},job_id="a",job_name="npu",user_name="bob",{_OWNER}}}': 1,
    f'trainfleet_job_status{{{_PAI},job_id="a",status="running"}}': 1,
    f'trainfleet_job_status{{{_PAI},job_id="b",status="failed"}}': 1,
    f'trainfleet_job_queue_position{{{_PAI},job_id="b"}}': 3,
    f"user:trainfleet_held_accelerators:sum{{{_PAI},{_USER}}}": 10,
    f'user:trainfleet_wasted_cost:per_hour{{{_PAI},currency="CNY",{_USER}}}': 20,
    f'trainfleet_job_accelerator_utilization_ratio{{{_PAI},job_id="a",accelerator="gpu"}}': 0.125,
    f'trainfleet_job_usage_timestamp_seconds{{{_PAI},job_id="a"}}': 0,
    f'trainfleet_job_holds_resources{{{_PAI},job_id="a"}}': 1,
    f'trainfleet_job_holds_resources{{{_PAI},job_id="b"}}': 0,
    f'trainfleet_job_holds_resources{{{_MA},job_id="a"}}': 1,
    f'trainfleet_job_requested_accelerators{{{_PAI},job_id="a",accelerator="gpu",accelerator_model="GU8T"}}': 16,
    f'trainfleet_job_requested_accelerators{{{_PAI},job_id="b",accelerator="gpu",accelerator_model="GU8T"}}': 8,
    f'trainfleet_job_requested_accelerators{{{_MA},job_id="a",accelerator="npu",accelerator_model="snt9b"}}': 32,
    f'trainfleet_pod_info{{{_PAI},job_id="a",pod_id="a-worker-0",role="worker",node_name="node-1",pod_ip=""}}': 1,
    f'trainfleet_pod_info{{{_PAI},job_id="b",pod_id="b-worker-0",role="worker",node_name="node-2",pod_ip=""}}': 1,
    f'trainfleet_pod_info{{{_MA},job_id="a",pod_id="worker-0",role="worker",node_name="",pod_ip=""}}': 1,
    f'trainfleet_pod_info{{{_MA},job_id="c",pod_id="worker-0",role="worker",node_name="",pod_ip=""}}': 1,
    f'trainfleet_pool_info{{{_PAI},pool_id="q1",pool_name="root",resource_type="Lingjun",parent_pool_id=""}}': 1,
    f'trainfleet_pool_info{{{_PAI},pool_id="q2",pool_name="child",resource_type="Lingjun",parent_pool_id="q1"}}': 1,
    f'trainfleet_pool_capacity_accelerators{{{_PAI},pool_id="q1",accelerator="gpu",accelerator_model="GU8T"}}': 64,
    f'trainfleet_pool_capacity_accelerators{{{_PAI},pool_id="q2",accelerator="gpu",accelerator_model="GU8T"}}': 32,
    f'trainfleet_pool_allocated_accelerators{{{_PAI},pool_id="q1",accelerator="gpu",accelerator_model="GU8T"}}': 40,
    f'trainfleet_pool_allocated_accelerators{{{_PAI},pool_id="q2",accelerator="gpu",accelerator_model="GU8T"}}': 8,
    f'trainfleet_pool_accelerator_utilization_ratio{{{_MA},pool_id="p1",accelerator="npu"}}': 0.75,
    f'trainfleet_node_info{{{_MA},pool_id="p1",node_name="n1",node_type="snt9b",node_ip="10.1.0.5"}}': 1,
    f'trainfleet_exporter_collector_last_success_timestamp_seconds{{{_PAI},collector="jobs"}}': 60,
    f'trainfleet_exporter_collector_last_success_timestamp_seconds{{{_PAI},collector="pods"}}': 0,
    f'trainfleet_exporter_collector_series{{{_PAI},collector="jobs"}}': 100,
    f'trainfleet_exporter_collector_series{{{_PAI},collector="pods"}}': 300,
    # dcgm-exporter on a node: two cards of a pod, and one without a pod.
    f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="u0",pod="a-worker-0",{_CARD}}}': 75,
    f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="u1",pod="a-worker-0",{_CARD}}}': 50,
    f'DCGM_FI_DEV_GPU_UTIL{{gpu="2",UUID="u2",{_CARD}}}': 0,
    f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="u0",{_CARD}}}': 71,
    f'DCGM_FI_DEV_GPU_TEMP{{gpu="1",UUID="u1",{_CARD}}}': 64,
    f'npu_chip_info_utilization{{id="0",{_CHIP}}}': 75,
    f'npu_chip_info_utilization{{id="1",{_CHIP}}}': 25,
}
_NOW = 300
EXPECTED: tuple[tuple[str, dict[str, float]], ...] = (
    ("collector_last_success", {f'{{{_PAI},collector="jobs"}}': _NOW - 60}),
    ("job_usage_timestamp", {f'{{{_PAI},job_id="a"}}': _NOW}),
    ("last_over_time", {f'trainfleet_job_status{{{_PAI},job_id="b",status="failed"}}': 1}),
    (
        "trainfleet_job_accelerator_utilization_ratio\n",
        {f'{{{_PAI},job_id="a",accelerator="gpu",job_name="llm",user_name="alice"}}': 0.125},
    ),
    ("sum by (provider, user_name)", {f'{{{_PAI},user_name="alice"}}': 16, f'{{{_MA},user_name="bob"}}': 32}),
    ("parent_pool_id", {f'{{{_PAI},accelerator_model="GU8T"}}': 24}),
    ("avg by (provider, job_id, job_name", {f'{{{_PAI},job_id="a",job_name="llm",user_name="alice"}}': 0.625}),
    ("trainfleet_job_status\n", {f'{{{_PAI},job_id="a",job_name="llm",status="running"}}': 1}),
    ("queue_position", {f'{{{_PAI},job_id="b",job_name="cv",pool_id="q1"}}': 3}),
    ("held_accelerators", {f'{{{_PAI},user_name="alice",accelerator_model="GU8T"}}': 1}),
    ("wasted_cost", {'{user_name="alice",currency="CNY"}': 2}),
    ("GPU_TEMP", {f'{{{_PAI},job_id="a"}}': 71}),
    ("abs(", {f'{{{_PAI},job_id="a",accelerator="gpu"}}': 0.5}),
    ("avg by (provider, pool_id) (\n  label", {f'{{{_MA},pool_id="p1"}}': 0.5}),
    ("trainfleet_pool_accelerator_utilization_ratio", {f'{{{_MA},pool_id="p1",accelerator="npu"}}': 0.25}),
    ("sort_desc", {f'{{{_PAI},collector="pods"}}': 300, f'{{{_PAI},collector="jobs"}}': 100}),
)
"""A text that only one query contains, and the result of this query."""


def test_the_series_are_such_as_the_exporter_shows() -> None:
    labels = {family.name: {"provider", *KEYS[family.of][0], *(family.labels or ())} for family in FAMILIES}
    for series in SERIES:
        name, _, given = series.partition("{")
        if name in labels:
            assert set(re.findall(r'(\w+)="', given)) == labels[name], series


def test_every_query_of_the_page_is_run() -> None:
    assert sorted(str(_block(mark)) for mark, _ in EXPECTED) == sorted(str(block) for block in FAQ)


def _block(mark: str) -> Block:
    (found,) = [block for block in FAQ if mark in block.text and _first(block.text) == mark]
    return found


def _first(text: str) -> str:
    """Return the first mark of `EXPECTED` that the query contains."""
    return next(mark for mark, _ in EXPECTED if mark in text)


@pytest.mark.parametrize(("mark", "answer"), EXPECTED, ids=[mark.strip() for mark, _ in EXPECTED])
def test_query(mark: str, answer: dict[str, float], tmp_path: Path) -> None:
    samples = [{"labels": labels, "value": value} for labels, value in answer.items()]
    path = tmp_path / "tests.yaml"
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": f"{value}x10"} for name, value in SERIES.items()],
            "promql_expr_test": [{"expr": _block(mark).text, "eval_time": "5m", "exp_samples": samples}],
        }
    ]
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": tests}), encoding="utf-8")
    ran = subprocess.run([need("promtool"), "test", "rules", str(path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
