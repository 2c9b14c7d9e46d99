"""PaiStudio and AIWorkSpace operations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import Caller
from trainfleet_simulator.pai.catalog import COMING, GENERAL, ROOT, TRAIN, VISION

QUOTAS = "/api/v1/quotas/"


@pytest.fixture(scope="module")
def caller() -> Caller:
    return Caller()


def listed(caller: Caller, path: str = QUOTAS, **query: str) -> dict[str, dict[str, Any]]:
    answer = caller.body("paistudio", "ListQuotas", path, **query)
    assert answer["TotalCount"] >= len(answer["Quotas"])
    return {quota["QuotaId"]: quota for quota in answer["Quotas"]}


def test_both_spellings_of_the_path(caller: Caller) -> None:
    assert set(listed(caller)) == set(listed(caller, "/api/v1/quotas")) == {ROOT, TRAIN, VISION, GENERAL, COMING}


def test_pages(caller: Caller) -> None:
    assert set(listed(caller, PageSize="2", PageNumber="2")) == {VISION, GENERAL}


@pytest.mark.parametrize(
    "query",
    [
        {"PageSize": "101"},
        {"PageNumber": "0"},
        {"Verbose": "1"},
    ],
    ids=str,
)
def test_refusals(caller: Caller, query: dict[str, str]) -> None:
    assert caller.refusal("paistudio", "ListQuotas", QUOTAS, **query) == (400, "InvalidParameter")


def test_every_amount_is_text_and_memory_has_mixed_suffixes(caller: Caller) -> None:
    train = listed(caller)[TRAIN]
    details = train["QuotaDetails"]
    assert details["ActualMinQuota"] == {"CPU": "1104", "GPU": "48", "GPUMemory": "4608Gi", "Memory": "10800Gi"}
    assert details["DesiredMinQuota"]["GPUType"] == train["GPUType"] == "GU8T"
    assert details["AllocatedQuota"]["Memory"].endswith("Mi")
    assert details["UsedQuota"] == details["AllocatedQuota"]
    assert all(isinstance(value, str) for amounts in details.values() for value in amounts.values())
    assert train["Min"] == {"NodeSpecs": [{"Type": "ml.gu8tf.8.46xlarge", "Count": 6}]}


def test_general_computing_reserves_a_part_of_each_node(caller: Caller) -> None:
    details = listed(caller)[GENERAL]["QuotaDetails"]
    assert details["SystemReservedQuota"] == {"CPU": "20", "GPU": "0", "GPUMemory": "0Gi", "Memory": "80Gi"}
    assert int(details["ActualMinQuota"]["CPU"]) == int(details["AllocatableQuota"]["CPU"]) + 20


@pytest.mark.parametrize("verbose", ["true", "True"])
def test_node_statistics_only_on_demand(caller: Caller, verbose: str) -> None:
    assert "NodeStatistics" not in listed(caller)[TRAIN]["QuotaDetails"]
    nodes = listed(caller, Verbose=verbose)[TRAIN]["QuotaDetails"]["NodeStatistics"]
    assert nodes["ActualMinNodeNum"] == 6 == nodes["AllocatedNodeNum"] + nodes["EmptyNodeNum"]


def test_a_parent_includes_its_children_and_names_them(caller: Caller) -> None:
    quotas = listed(caller, Verbose="true")
    root = quotas[ROOT]["QuotaDetails"]
    own = int(root["SelfAllocatedQuota"]["GPU"])
    children = sum(int(quotas[child]["QuotaDetails"]["AllocatedQuota"]["GPU"]) for child in (TRAIN, VISION))
    assert int(root["AllocatedQuota"]["GPU"]) == own + children
    assert int(root["DescendantsAllocatedQuota"]["GPU"]) == children
    assert root["ActualMinQuota"]["GPU"] == str(8 * (4 + 6 + 3))
    assert root["NodeStatistics"]["ActualMinNodeNum"] == 13
    assert [child["QuotaId"] for child in quotas[ROOT]["SubQuotas"]] == [TRAIN, VISION]
    assert quotas[TRAIN]["ParentQuotaId"] == ROOT


def test_what_queues_is_submitted_and_not_allocated(caller: Caller) -> None:
    details = listed(caller)[ROOT]["QuotaDetails"]
    waiting = int(details["SelfSubmittedQuota"]["GPU"]) - int(details["AllocatedQuota"]["GPU"])
    assert waiting >= 32, "the job that waits for the whole root"


def test_a_pool_that_is_being_created_is_empty(caller: Caller) -> None:
    coming = listed(caller, Verbose="true")[COMING]
    assert coming["Status"] == "Creating"
    assert coming["QuotaDetails"]["ActualMinQuota"]["GPU"] == "0"
    assert coming["QuotaDetails"]["AllocatedQuota"]["Memory"] == "0"
    assert coming["QuotaDetails"]["DesiredMinQuota"]["GPU"] == "16"
    assert coming["QuotaDetails"]["NodeStatistics"]["ActualMinNodeNum"] == 0


def test_workspaces_are_those_of_the_member(caller: Caller) -> None:
    answer = caller.body("aiworkspace", "ListWorkspaces", "/api/v1/workspaces", Verbose="false")
    names = {row["WorkspaceId"]: row["WorkspaceName"] for row in answer["Workspaces"]}
    assert names == {"12345": "ws_train", "12346": "ws_vision", "12347": "ws_speech"}
    assert answer["TotalCount"] == 3
    assert [row["IsDefault"] for row in answer["Workspaces"]] == [True, False, False]


def test_pages_of_workspaces(caller: Caller) -> None:
    def call(**query: str) -> dict[str, Any]:
        return caller.body("aiworkspace", "ListWorkspaces", "/api/v1/workspaces", **query)

    page = call(PageSize="2", PageNumber="2")
    assert [row["WorkspaceId"] for row in page["Workspaces"]] == ["12347"]
    assert page["TotalCount"] == 3
    refused = caller.refusal("aiworkspace", "ListWorkspaces", "/api/v1/workspaces", PageSize="101")
    assert refused == (400, "InvalidParameter")
