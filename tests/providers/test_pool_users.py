"""Who holds the pools of the simulated clouds: the users' accelerators add up to what is allocated."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from tests.support.clock import run_stepped
from tests.support.configs import exporter_of, written
from trainfleet_exporter.model import PoolUser
from trainfleet_exporter.providers.alibaba_pai.jobs import ResourceConfig
from trainfleet_exporter.providers.alibaba_pai.pools import UserResources, UsersPage
from trainfleet_exporter.providers.alibaba_pai.pools import UserRow as QuotaUser
from trainfleet_exporter.providers.alibaba_pai.pools import WorkloadRow as QuotaWorkload
from trainfleet_exporter.providers.alibaba_pai.pools import users as pai_users
from trainfleet_simulator import Simulator

FIRST = ("workspaces", "pools", "pool_users")
SERIES = re.compile(r"trainfleet_(\w+)\{([^}]*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


async def _page(simulator: Simulator, folder: Path) -> str:
    async with simulator.serve() as url:
        exporter = exporter_of(written(folder, simulator.config_yaml(url)))
        try:
            runners = {runner.state.collector: runner for runner in exporter.runners}
            for name in FIRST:
                await runners[name].tick()
                assert runners[name].state.success, name
            return (await exporter.text()).decode()
        finally:
            await exporter.aclose()


@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_users_of_pools_add_up_to_what_is_allocated(cloud: str, tmp_path: Path) -> None:
    simulator = Simulator(seed=7, clouds=(cloud,))
    text = run_stepped(lambda: _page(simulator, tmp_path))
    parent: dict[str, str] = {}
    held: defaultdict[str, float] = defaultdict(float)
    allocated: dict[str, float] = {}
    holders: set[tuple[str, str]] = set()
    for name, labels, value in SERIES.findall(text):
        found = dict(LABEL.findall(labels))
        match name:
            case "pool_info":
                parent[found["pool_id"]] = found["parent_pool_id"]
            case "pool_user_accelerators":
                held[found["pool_id"]] += float(value)
                holders.add((found["user_name"], found["workload_type"]))
            case "pool_allocated_accelerators":
                allocated[found["pool_id"]] = float(value)
    for pool_id, count in allocated.items():
        family = [other for other in allocated if pool_id in (other, parent[other])]
        assert sum(held[other] for other in family) == count, pool_id
    assert sum(held.values()) > 0
    assert holders <= {(job.draft.user.name, "training") for job in simulator.worlds[cloud].live()}


def _usage(user_id: str, gpus: str) -> QuotaUser:
    return QuotaUser(user_id, f"n-{user_id}", UserResources(ResourceConfig(gpu=gpus)))


def _workload(user_id: str, gpus: str) -> QuotaWorkload:
    return QuotaWorkload(user_id=user_id, user_name=f"n-{user_id}", resource=ResourceConfig(gpu=gpus))


def _of(found: list[PoolUser]) -> dict[tuple[str, str, str], float]:
    return {(one.user_id, one.user_name, one.workload_type): one.accelerators[0].count for one in found}


def test_training_jobs_hold_the_rest_of_a_total() -> None:
    rows = [_usage("1", "12"), _usage("2", "4"), _usage("3", "0"), QuotaUser("4", "n-4")]
    others = {"dsw": [_workload("1", "1"), _workload("1", "2"), _workload("2", "4")], "eas": [_workload("5", "0.5")]}
    assert _of(pai_users("q", rows, others)) == {
        ("1", "n-1", "notebook"): 3.0,
        ("1", "n-1", "training"): 9.0,
        ("2", "n-2", "notebook"): 4.0,
        ("5", "n-5", "service"): 0.5,
    }


@pytest.mark.parametrize("others", [None, {"dsw": [_workload("1", "1"), QuotaWorkload(user_id="1")]}])
def test_types_that_are_not_known_are_not_guessed(others: dict[str, list[QuotaWorkload]] | None) -> None:
    assert _of(pai_users("q", [_usage("1", "12")], others)) == {("1", "n-1", ""): 12.0}


@pytest.mark.parametrize("name", ["QuotaUserUsages", "QuotaUserUsage"])
def test_an_empty_list_of_either_name_is_not_a_missing_one(name: str) -> None:
    assert msgspec.convert({"TotalCount": 1, name: []}, UsersPage).rows == []
