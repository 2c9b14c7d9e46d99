"""Faults of values: words that nobody knows, hostile names, numbers that measure nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.rig import Heard, Rig
from trainfleet_simulator import Fault
from trainfleet_simulator.fault_kinds import VALUES

JOBS, SEARCH = "pai ListJobs", "modelarts ListTrainingJobs"
NUMBERLESS = {
    "pai ListWorkspaces",
    "pai DescribeMetricMetaList",
    "pai AssumeRole",
    "pai AssumeRoleWithOIDC",
    "pai PutToken",
    "pai ListRamRoles",
    "pai GetRamRoleCredentials",
    "pai GetCredentialsUri",
    "modelarts ListWorkspaces",
    "modelarts ListScheduledEvents",
    "modelarts ListLogFileNames",
    "modelarts KeystoneCreateUserTokenByPassword",
    "modelarts KeystoneListProjects",
    "modelarts AssumeAgencyWithOIDC",
    "modelarts GetMetadataToken",
    "modelarts GetSecurityKey",
    "modelarts ListLabelValuesAomPromGet",
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value with its place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{place}]")
    else:
        yield path, value


def changed(true: Heard, heard: Heard) -> dict[str, tuple[Any, Any]]:
    """The values that are others, by their place without numbers."""
    before, after = dict(leaves(opened(true.body))), dict(leaves(opened(heard.body)))
    assert before.keys() == after.keys()
    return {
        re.sub(r"\[\d+\]", "", path): (value, after[path])
        for path, value in before.items()
        if value != after[path] and not path.endswith(("RequestId", "NextToken"))
    }


def opened(body: Any) -> Any:
    """With the texts that hold JSON decoded."""
    for name in ("Datapoints",):
        if name in body:
            return body | {name: json.loads(body[name])}
    if "versions" in body:
        rows = [row | {"system_metric_list": json.loads(row["system_metric_list"])} for row in body["versions"]]
        return body | {"versions": rows}
    return body


@pytest.mark.parametrize("kind", ["negative", "nan", "infinite"])
def test_only_measured_and_counted_numbers_are_wrong(rig: Rig, kind: str) -> None:
    answers = rig.everywhere(kind=kind)
    assert {name for name, (_, heard) in answers.items() if heard.fault is None} == NUMBERLESS
    for name, (true, heard) in answers.items():
        if heard.fault is None:
            continue
        assert heard.outcome == true.outcome
        found = changed(true, heard)
        assert found, name
        for path, (before, after) in found.items():
            field = path.rpartition(".")[2].lower()
            assert not field.endswith(("time", "timestamp", "_at", "id")), path
            assert isinstance(after, str) == isinstance(before, str), path
            if kind == "negative":
                assert str(after).startswith("-")
            elif kind == "nan":
                assert after == "NaN" if isinstance(after, str) else math.isnan(after)
            else:
                assert after == "1e400" if isinstance(after, str) else math.isinf(after)


def test_numbers_as_they_are_written(rig: Rig) -> None:
    _, jobs = rig.one(JOBS, kind="nan")
    assert b'"Duration":NaN' in jobs.raw
    _, jobs = rig.one(JOBS, kind="infinite")
    assert b'"Duration":1e400' in jobs.raw
    assert b"Infinity" not in jobs.raw
    _, metrics = rig.one("pai DescribeMetricLast", kind="infinite")
    assert b'\\"Average\\":1e400' in metrics.raw
    _, vector = rig.one("modelarts ListInstantQueryAomPromPost", kind="negative")
    samples = [row["value"] for row in vector.body["data"]["result"]]
    assert samples
    assert all(stamp > 0 and value.startswith("-") for stamp, value in samples)
    _, node = rig.one("modelarts ListPoolNodes", kind="negative")
    assert node.body["items"][0]["status"]["resources"]["cpu"].startswith("-")
    _, job = rig.one(JOBS, kind="negative")
    assert {row["NodeCount"][0] for row in job.body["Jobs"]} == {"-"}
    assert {row["Priority"] > 0 for row in job.body["Jobs"]} == {True}


def test_words_that_nobody_knows(rig: Rig) -> None:
    answers = rig.everywhere(kind="unknown_words")
    applied = {name for name, (_, heard) in answers.items() if heard.fault}
    assert applied == {
        JOBS,
        "pai GetJob",
        "pai ListQuotas",
        "pai ListQuotaWorkloads",
        "pai ListNodes",
        "pai ListWorkspaces",
        SEARCH,
        "modelarts ShowTrainingJobDetails",
        "modelarts ListPools",
        "modelarts ListPoolNodes",
        "modelarts ListScheduledEvents",
        "modelarts ListWorkloads",
        "modelarts ShowWorkloadStatistics",
        "modelarts ListWorkspaces",
        "modelarts ListTrainingJobsV1",
        "modelarts ListTrainingJobVersions",
    }
    for name in applied - {"modelarts ShowWorkloadStatistics"}:
        true, heard = answers[name]
        found = changed(true, heard)
        assert {after for _, after in found.values()} <= {"Sublimating", 99}, name
    assert {row["Status"] for row in answers[JOBS][1].body["Jobs"]} == {"Sublimating"}
    assert {row["status"] for row in answers["modelarts ListTrainingJobsV1"][1].body["jobs"]} == {99}
    assert answers["pai GetJob"][1].body["Pods"][0]["Status"] == "Sublimating"
    true, heard = answers["modelarts ShowWorkloadStatistics"]
    before, after = ((one.body.get("statistics") or one.body["statics"])["items"] for one in (true, heard))
    for old, new in zip(before, after, strict=True):
        assert next(iter(new["status"])) == "Sublimating"
        assert list(new["status"].values()) == list(old["status"].values())


FREE = {
    JOBS: {"DisplayName", "WorkspaceName", "Username", "ResourceName", "ResourceQuotaName"},
    "pai GetJob": {"DisplayName", "NodeName", "WorkspaceName"},
    "pai ListQuotas": {"QuotaName", "WorkspaceName"},
    "pai ListWorkspaces": {"WorkspaceName", "DisplayName"},
    "pai ListQuotaWorkloads": {"WorkloadName", "UserName"},
    SEARCH: {"name", "user_name", "pool_name"},
    "modelarts ListPools": {"modelarts/name"},
    "modelarts ListWorkloads": {"name", "jobName", "userName"},
    "modelarts ListWorkspaces": {"name"},
    "modelarts ListTrainingJobsV1": {"job_name"},
}


@pytest.mark.parametrize("kind", ["hostile_strings", "lone_surrogates"])
@pytest.mark.parametrize("name", FREE)
def test_names_and_free_texts_are_hostile_and_ids_are_not(rig: Rig, name: str, kind: str) -> None:
    true, heard = rig.one(name, kind=kind)
    assert (heard.fault, heard.outcome) == (kind, "ok")
    found = changed(true, heard)
    fields = {path.rpartition(".")[2] for path in found}
    assert fields >= FREE[name]
    ids = {"JobId", "WorkspaceId", "QuotaId", "UserId", "PodId", "id", "job_id", "uid", "pool_id", "jobUUID", "user_id"}
    assert not fields & ids
    if name == "modelarts ListPools":
        assert all(".labels." in path or ".annotations." in path for path in found)
    heard.raw.decode("ascii")  # everything else is escaped


def test_what_is_hostile(rig: Rig) -> None:
    _, heard = rig.one(JOBS, kind="hostile_strings")
    texts = [value for _, value in leaves(heard.body) if isinstance(value, str)]
    whole = "".join(texts)
    for nasty in ('"', "\\", "\n", "\x00", "\x1b", "\u202e", "🚂", "{}", "</script>", "# TYPE"):
        assert nasty in whole
    assert max(map(len, texts)) >= 10_000
    _, halves = rig.one(JOBS, kind="lone_surrogates")
    assert b"\\ud83d" in halves.raw
    with pytest.raises(UnicodeEncodeError):
        halves.body["Jobs"][0]["DisplayName"].encode()


def test_tags_are_hostile_too(rig: Rig) -> None:
    _, jobs = rig.one(JOBS, kind="hostile_strings")
    _, search = rig.one(SEARCH, kind="lone_surrogates")
    tags = [tag for row in jobs.body["Jobs"] for tag in row["Settings"]["Tags"].values()]
    assert tags
    assert not [tag for tag in tags if re.fullmatch(r"[\w-]+", tag) and len(tag) < 30]
    marks = [tag for row in search.body["items"] for tag in row["metadata"]["annotations"].values()]
    assert marks
    assert all(tag.startswith("\ud83d") for tag in marks)


def test_a_refusal_is_not_warped(rig: Rig) -> None:
    asking = rig.asking[JOBS].at(Status="Nonsense")
    for kind in VALUES:
        (heard,) = rig.hear((asking, Fault({"operation": "ListJobs"}, kind=kind)))
        assert (heard.status, heard.body["Code"], heard.fault) == (400, "InvalidParameter", None)
