"""A diagnosis of the simulated clouds, over real HTTP in stepped time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import running_cloud
from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from trainfleet_exporter.cli import main
from trainfleet_exporter.diagnose import ProviderReport, examine, show
from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Fault, Simulator

Change = Callable[[str], str]


def diagnosed(
    folder: Path,
    *faults: Fault,
    clouds: tuple[str, ...] = ("pai",),
    change: Change = lambda text: text,
) -> list[ProviderReport]:
    """What is found, with these faults and this change of the simulator's own config."""

    async def run() -> list[ProviderReport]:
        simulator = Simulator(seed=3, clouds=clouds)
        for fault in faults:
            simulator.faults.add(fault)
        async with simulator.serve() as url:
            config = loaded(written(folder, change(simulator.config_yaml(url))))
            reports = await examine(config, installed_platforms())
            async with httpx.AsyncClient(trust_env=False) as client:
                reported = (await client.get(f"{url}/truth")).json()["calls"]
        if not faults:
            for api in {endpoint.api for report in reports for endpoint in report.endpoints}:
                answered = sum(sum(outcomes.values()) for outcomes in reported.get(api, {}).values())
                asked = [row.outcomes for report in reports for row in report.endpoints if row.api == api]
                assert sum(n for outcomes in asked for word, n in outcomes.items() if word != "network") == answered
        return reports

    return run_stepped(run)


def test_a_healthy_account(tmp_path: Path) -> None:
    pai, modelarts = diagnosed(
        tmp_path, clouds=("pai", "modelarts"), change=lambda text: text.replace("interval: 15s", "interval: 2m")
    )
    assert pai.success
    assert modelarts.success
    assert (pai.credentials, pai.credentials_expire) == ("config file", None)
    assert pai.missing_rights == ()
    assert all(endpoint.outcomes.keys() <= {"ok", "no_data"} for endpoint in (*pai.endpoints, *modelarts.endpoints))
    assert pai.series["trainfleet_workspace_info"] == 3
    assert sum(pai.series.values()) == pytest.approx(sum(row.series for row in pai.collectors) + 1, rel=0.01)
    (usage,) = [row for row in pai.collectors if row.collector == "usage"]
    (months,) = [row for row in pai.calls if row.api == "cloudmonitor"]
    # Every two minutes what the first poll took but the two catalogues, which are kept for a day.
    assert months.month == pytest.approx((usage.calls["cloudmonitor"] - 2) * 30 * 720 + 2 * 30)
    assert months.free == 1_000_000
    reported = show(pai)
    assert "  jobs " in reported
    assert "poll_timeout" in reported
    assert all(len(line) < 400 for line in reported.splitlines())


def test_rights_that_are_missing_are_named_with_their_action(tmp_path: Path) -> None:
    pai, modelarts = diagnosed(
        tmp_path,
        Fault({"operation": "ListQuotas"}, status=403),
        Fault({"operation": "DescribeMetricLast"}, status=403),
        Fault({"operation": "ListPools"}, status=403),
        clouds=("pai", "modelarts"),
    )
    assert {row.operation for row in pai.missing_rights} == {"ListQuotas", "DescribeMetricLast"}
    rights = {row.operation: row.right for row in pai.missing_rights}
    assert "pai:ListQuotas" in rights["ListQuotas"]
    assert "cms:DescribeMetricLast" in rights["DescribeMetricLast"]
    assert [row.operation for row in modelarts.missing_rights] == ["ListPools"]
    assert not pai.success
    reported = show(pai)
    assert f"grant the identity {rights['ListQuotas']}" in reported
    (failed,) = [row for row in pai.collectors if row.collector == "pools"]
    assert failed.success is False
    (problem,) = [row for row in pai.problems if row.operation == "ListQuotas"]
    assert "HTTP 403" in problem.message
    assert problem.collectors == ("pools",)


def test_wrong_keys_are_no_missing_right(tmp_path: Path) -> None:
    (pai,) = diagnosed(tmp_path, change=lambda text: text.replace("access_key_secret: ", "access_key_secret: planted-"))
    assert not pai.success
    assert pai.missing_rights == ()
    reported = show(pai) + json.dumps(pai.as_json())
    assert "is the access key secret the right one?" in reported
    assert "planted" not in reported


def test_endpoint_without_a_server(tmp_path: Path) -> None:
    dead = "      paistudio: http://127.0.0.1:9 # http"
    (pai,) = diagnosed(tmp_path, change=lambda text: text.replace("      paistudio: http", dead))
    (paistudio,) = [row for row in pai.endpoints if row.api == "paistudio"]
    assert paistudio.outcomes.keys() == {"network"}
    assert any("127.0.0.1:9" in row.message for row in pai.problems)
    assert any(line.startswith("cannot reach paistudio at http://127.0.0.1:9") for line in pai.advice)


def test_slow_bulk_collector_is_reported_early(tmp_path: Path) -> None:
    (pai,) = diagnosed(tmp_path, change=lambda text: text.replace("requests_per_second: 200", "requests_per_second: 6"))
    (jobs,) = [row for row in pai.collectors if row.collector == "jobs"]
    assert jobs.success
    assert jobs.needs > jobs.has / 2
    assert any("calls a minute that limits.requests_per_second allows" in line for line in pai.advice)
    assert any(line.startswith("jobs needs about ") for line in pai.advice)


def test_cycle_over_many_jobs_is_estimated_from_a_few(tmp_path: Path) -> None:
    (pai,) = diagnosed(tmp_path)
    (pods,) = [row for row in pai.collectors if row.collector == "pods"]
    assert pods.tried == 20
    assert pods.units > 30
    assert pods.calls == {"dlc": pods.units}
    assert pai.series["trainfleet_pod_status"] == pai.series["trainfleet_pod_info"] > pods.units
    assert f"{pods.units} dlc (20 of {pods.units} jobs tried)" in show(pai)


REFUSALS = [
    (
        "pai",
        Fault({"operation": "DescribeMetricLast"}, status=200, body={"Code": "403", "Message": "Forbidden.RAM"}),
        True,
    ),
    ("sagemaker", Fault({"operation": "Search"}, kind="denied"), True),  # 400
    ("sagemaker", Fault({"operation": "Search"}, kind="expired_credentials"), False),
    ("pai", Fault({"operation": "ListQuotas"}, status=403, body={"Code": "InvalidSecurityToken.Expired"}), False),
    ("modelarts", Fault({"operation": "ListPools"}, kind="denied"), True),
    ("modelarts", Fault({"operation": "ListPools"}, kind="revoked_credentials"), False),
]


@pytest.mark.parametrize(
    ("cloud", "fault", "missing"), REFUSALS, ids=["200", "400", "expired", "403 expired", "403", "unknown key"]
)
def test_codes_decide_whether_a_permission_is_missing(tmp_path: Path, cloud: str, fault: Fault, missing: bool) -> None:
    (report,) = diagnosed(tmp_path, fault, clouds=(cloud,))
    operation = fault.match["operation"]
    assert [row.operation for row in report.missing_rights] == [operation] * missing
    assert not report.success
    assert f"  - {'grant the identity' if missing else 'fix the credentials (from config file):'}" in show(report)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (Fault({}, kind="skewed_clock"), ["fix the credentials (from config file): HTTP 400 InvalidTimeStamp"]),
        (Fault({}, kind="revoked_credentials"), ["fix the credentials (from config file): "]),
        (Fault({"api": "paistudio"}, kind="throttled"), ["paistudio throttles: lower limits.requests_per_second"]),
        (Fault({"operation": "ListQuotas"}, kind="html"), ["check pools: ListQuotas: HTTP 200"]),
        (Fault({"operation": "ListQuotas"}, kind="server_error"), ["check pools: ListQuotas: HTTP 500"]),
        (Fault({"operation": "ListQuotas"}, kind="hang"), ["cannot reach paistudio at http://127.0.0.1:"]),
        (
            Fault({"operation": "ListWorkspaces"}, body={"Workspaces": [], "TotalCount": 0}, status=200),
            ["no workspace is"],
        ),
    ],
    ids=lambda value: value.kind or "empty list" if isinstance(value, Fault) else "",
)
def test_each_fault_has_advice(tmp_path: Path, fault: Fault, advice: list[str]) -> None:
    (pai,) = diagnosed(tmp_path, fault, change=lambda text: text.replace("interval: 15s", "interval: 2m"))
    assert len(pai.advice) == len(advice), pai.advice
    for line, beginning in zip(pai.advice, advice, strict=True):
        assert line.startswith(beginning)


def test_platform_without_workspaces_has_no_advice_on_them(tmp_path: Path) -> None:
    (pai,) = diagnosed(tmp_path)
    assert not any(line.startswith("no workspace") for line in advise(replace(pai, series={}, collectors=())))


def test_refused_aom_is_a_missing_right_despite_task_metrics(tmp_path: Path) -> None:
    _, modelarts = diagnosed(tmp_path, Fault({"api": "aom"}, status=403), clouds=("pai", "modelarts"))
    assert "aom:metric:list" in {row.right for row in modelarts.missing_rights}
    assert modelarts.success


def test_providers_of_one_account_are_reported_together(tmp_path: Path) -> None:
    def twice(text: str) -> str:
        head, _, provider = text.partition("  - name:")
        provider = "  - name:" + provider.replace("    region:", "    account: main\n    region:")
        return head + provider + provider.replace("name: sim-pai-hangzhou", "name: other")

    first, second = diagnosed(tmp_path, change=twice)
    for report in (first, second):
        (months,) = [row for row in report.calls if row.api == "cloudmonitor"]
        assert months.of_account == pytest.approx(2 * months.month)
        assert months.minute_of_account == pytest.approx(2 * months.minute)


def test_a_budget_that_is_too_small(tmp_path: Path) -> None:
    budget = "      concurrency: 8\n      monthly_calls: {cloudmonitor: 400000}\n"
    (pai,) = diagnosed(tmp_path, change=lambda text: text.replace("      concurrency: 8\n", budget))
    (months,) = [row for row in pai.calls if row.api == "cloudmonitor"]
    assert months.budget == 400_000 < months.month
    assert any("limits.monthly_calls is 400,000" in line for line in pai.advice)
    (free,) = diagnosed(tmp_path)
    assert any("set limits.monthly_calls: {cloudmonitor: N}" in line for line in free.advice)


def test_the_command_prints_a_table_or_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running_cloud(seed=3) as (simulator, url):
        command = ["diagnose", f"--config.file={written(tmp_path, simulator.config_yaml(url))}"]
        assert main(command) == 0
        assert capfd.readouterr().out.startswith("sim-pai-hangzhou: alibaba_pai in cn-hangzhou\n")
        assert main([*command, "--json"]) == 0
    (report,) = json.loads(capfd.readouterr().out)["providers"]
    assert report["provider"] == "sim-pai-hangzhou"
    assert report["success"] is True
    assert {row["collector"] for row in report["collectors"]} >= {"jobs", "usage", "pods"}
