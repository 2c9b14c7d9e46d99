"""What the status page says of exporters that are well, failing, and not known yet."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.web.status_page_rig import NOW, Rig, counts, healthy, holder, text_of, usage
from trainfleet_exporter.model import JobTime, PhaseTime, Status
from trainfleet_exporter.web.status_page.figures import IDLE_RATIO

RULES = Path(__file__).parents[2] / "deploy/prometheus/thresholds.yaml"


def test_all_is_well() -> None:
    page = healthy().see()
    assert page.title == "OK · trainfleet-exporter"
    assert page.tiles() == {
        "Providers ok": ("2 of 2", "all 4 collectors ok"),
        "Jobs running": ("6", "1,200 queued"),
        "Accelerators held": ("30", "28 GPU, 2 NPU"),
        "Held and idle": ("10", "utilization below 5 %; 4 not known"),
    }
    assert [state for state, _ in page.providers()] == ["is-ok", "is-ok"]
    (_, pai), _ = page.providers()
    assert pai.startswith("✓ ok pai alibaba_pai · cn-hangzhouAll 2 collectors ok · last good poll at most 12 s ago")
    assert [text_of(line) for line in page.all("summary")] == [
        "All 2 collectors ok · last good poll at most 12 s ago"
    ] * 2
    assert not page.all("section", "problems")
    rows = page.rows("providers")
    assert rows[0] == ["jobs", "✓ ok", "12 s ago", "20 s ago", "60 s", "0.2 s", "2", "1,200"]
    assert not page.all("p", "doubt")
    assert not page.all("p", "alarm")
    assert not page.all("p", "notice")
    assert not page.all("script")


def _spend(rig: Rig, provider: str, job_id: str, unheld: float = 0.0, **phases: float) -> None:
    spent = tuple(PhaseTime(phase, seconds) for phase, seconds in phases.items())  # type: ignore[arg-type]  # phases
    rig.publish(f"{job_id} of {provider}", provider, holder(job_id, 4), JobTime(job_id, spent, unheld))


def test_first_card_is_runtime_goodput_if_it_is_known() -> None:
    rig = healthy()
    _spend(rig, "pai", "one", 4_000, queued=90_000, preparing=4_900, running=6_000, recovering=2_100)
    _spend(rig, "ma", "one", running=3_000)
    _spend(rig, "ma", "waits", queued=3_000)
    page = rig.see()
    label, figures = next(iter(page.tiles().items()))
    assert (label, figures) == ("Runtime goodput", ("75 %", "of the time that these jobs held accelerators"))
    note = page.section("held")
    assert "for 13.3 accelerator-hours since they were created and were running for 10 of them. The rest is" in note


def test_jobs_are_summed_over_workspaces_and_absent_is_not_zero() -> None:
    found = healthy().see().counts()
    assert list(found) == ["All 2 providers", "pai", "ma"]
    assert found["All 2 providers"]["failed"] == "≥ 4"
    pai = found["pai"]
    assert (pai["running"], pai["queued"], pai["failed"], pai["unknown"]) == ("5", "1,200", "4", "0")
    # Those that the platform does not have, next to others that it has.
    assert (pai["restarting"], pai["succeeded"]) == ("–", "–")
    # Nothing at all is known of the finished ones.
    assert (found["ma"]["running"], found["ma"]["failed"]) == ("1", "not known")
    assert found["All 2 providers"]["running"] == "6"


def test_held_idle_and_unmeasured_accelerators() -> None:
    page = healthy().see()
    assert page.rows("held") == [
        ["pai GPU", "28", "8", "4", "50 %"],
        ["ma NPU", "2", "2", "0", "5 %"],
    ]
    assert "5 more accelerators may be held: the status of the jobs does not show it" in page.section("held")
    assert page.rows("idle") == [
        ["night runli.na · hangs · paipool pool-1", "8 GPUA100", "0 %", "3 h 01 min"],
        ["slow (starting)user not known · ma", "2 NPUsnt9b", "5 %", "not known"],
    ]
    assert "The utilization of 4 held accelerators is not known" in page.section("idle")
    assert "a utilization below 5 %" in page.section("idle")


def test_idle_is_what_the_alert_rules_call_idle() -> None:
    assert yaml.safe_load(RULES.read_text(encoding="utf-8"))["thresholds"]["idle_ratio"] == IDLE_RATIO
    rig = Rig()
    rig.collector("p", "jobs")
    rig.publish("jobs", "p", holder("below", 1), holder("at", 2))
    rig.publish("usage", "p", usage("below", IDLE_RATIO - 1e-9), usage("at", IDLE_RATIO))
    assert rig.see().tiles()["Held and idle"][0] == "1"


def test_a_failing_provider_is_on_top_with_words() -> None:
    rig = healthy()
    rig.failing("z-last", "jobs", "ListJobs: HTTP 403 NoPermission you may not", part="workspace 7", oldest_part=None)
    rig.collector("z-last", "usage", success=False, parts=9, parts_failed=2)
    page = rig.see()
    assert page.title == "1 of 3 down · trainfleet-exporter"
    assert text_of(page.all("h1")[0]) == "trainfleet-exporter ✕ 1 of 3 providers down"
    state, text = page.providers()[0]
    assert state == "is-down"
    assert text.startswith("✕ down z-last No collector succeeded in its latest poll (2 of 2 failed).")
    assert "7 s ago, part workspace 7: ListJobs: HTTP 403 NoPermission you may not" in text
    rows = page.rows("problems")
    assert rows[0][:4] == ["jobs", "✕ failing", "5 min ago", "–"]
    assert rows[2][6] == "9"
    assert page.tiles()["Providers ok"] == ("2 of 3", "2 of 6 collectors with problems")
    assert page.tiles()["Accelerators held"] == ("≥ 30", "28 GPU, 2 NPU · may be old")
    assert page.counts()["All 3 providers"]["running"] == page.tiles()["Jobs running"][0] == "≥ 6"
    assert "z-lastnot known: no counts are published now" in page.section("jobs")
    assert "not known: z-last" in page.section("held")


def test_values_that_never_came_are_not_called_old() -> None:
    rig = Rig()
    rig.failing("old", "jobs", "no answer")
    rig.failing("new", "jobs", "no answer", last_success=0.0)
    (_, old), (_, new) = rig.see().providers()
    assert "The values are old and disappear after a few polls." in old
    assert "None has succeeded since the start." in new
    assert "never" in new
    assert "disappear" not in new


def test_one_failing_collector_of_a_provider_that_is_up() -> None:
    rig = healthy()
    rig.failing("ma", "pools", "ListPools: no answer within 20 s")
    page = rig.see()
    assert page.title == "1 of 2 failing · trainfleet-exporter"
    assert [state for state, _ in page.providers()] == ["is-failing", "is-ok"]
    assert "1 of 3 collectors failed in the latest poll." in page.providers()[0][1]
    assert page.rows("problems")[0][0] == "pools"  # before the collectors without problems, which are folded
    (folded,) = [line for line in page.all("summary") if text_of(line).startswith("2 collectors ok")]
    assert folded in list(page.all("section", "problems")[0].iter())
    doubt = "! Not all collectors are ok"
    assert f"ma{doubt}" in page.section("jobs")
    assert f"All 2 providers{doubt}" in page.section("jobs")  # a sum is no surer than what it is made of
    assert f"pai{doubt}" not in page.section("jobs")
    assert "! Not all collectors of ma are ok" in page.section("held")


def test_before_the_first_polls_nothing_is_known() -> None:
    rig = Rig()
    rig.collector("p", "jobs", success=None, last_success=0.0, duration=None, parts=0, series=0, oldest_part=None)
    page = rig.see()
    assert page.title == "1 of 1 at first poll · trainfleet-exporter"
    assert page.rows("providers") == [["jobs", "… first poll", "–", "–", "60 s", "–", "0", "0"]]
    assert page.tiles()["Jobs running"] == ("not known", "not known queued · may be old")
    assert page.tiles()["Accelerators held"][0] == "not known"
    assert page.tiles()["Held and idle"][0] == "not known"
    assert "not known: p" in page.section("held")
    assert "0" not in page.section("jobs").replace("30 days by default", "")


def test_what_is_not_known_is_not_zero() -> None:
    rig = Rig()
    rig.collector("p", "jobs")
    rig.publish("jobs", "p", holder("unmeasured", 8))
    page = rig.see()
    assert page.tiles()["Held and idle"][0] == "not known"
    assert page.rows("held") == [["p GPU", "8", "not known", "8", "not known"]]
    rig.publish("jobs", "p", holder("untold", 5, status=Status.UNKNOWN, holds_resources=None))
    page = rig.see()
    assert page.tiles()["Accelerators held"] == ("not known", "none known")
    assert page.tiles()["Held and idle"][0] == "not known"
    assert page.rows("held") == [["p GPU", "not known", "not known", "0", "not known"]]


def test_a_poll_that_never_ends_is_stale() -> None:
    rig = Rig()
    rig.collector("p", "jobs", last_success=NOW - 239)
    assert rig.see().title.startswith("OK")
    rig = Rig()
    rig.collector("p", "jobs", last_success=NOW - 241)
    page = rig.see()
    assert page.title == "1 of 1 stale · trainfleet-exporter"
    assert page.rows("problems")[0][:3] == ["jobs", "! stale", "4 min ago"]
    assert "have not finished a poll in time" in page.section("problems")
    assert "All providers have problems." in page.section("providers")


def test_calls_and_credentials() -> None:
    rig = Rig()
    rig.collector("p", "jobs")
    rig.collector("q", "jobs")
    for outcome in ("ok", "no_data", "throttled", "throttled", "timeout"):
        rig.telemetry.attempt("p", api="dlc", operation="x", outcome=outcome, seconds=0.1)
    rig.telemetry.attempt("gone", api="dlc", operation="x", outcome="ok", seconds=0.1)
    rig.telemetry.watch_credentials("p", lambda: NOW + 7200)
    rig.telemetry.watch_credentials("q", lambda: NOW - 120)
    page = rig.see()
    (_, p), (_, q) = page.providers()
    assert "dlc5 3 failed (throttled 2, timeout 1)" in p
    assert "Credentials expire in 2 h 00 min (2026-01-02 05:04:05 UTC)" in p
    assert "Credentials expired 2 min ago" in q
    assert "gone" not in page.section("providers")


@pytest.mark.parametrize(
    ("deny", "sections"),
    [
        ("trainfleet_jobs", {"jobs"}),
        ("trainfleet_job_holds_*", {"held", "idle"}),
        ("trainfleet_job_requested_accelerators", {"held", "idle"}),
        ("*_utilization_ratio", {"idle"}),
    ],
)
def test_what_the_operator_hides_is_not_known(deny: str, sections: set[str]) -> None:
    rig = Rig(deny=[deny])
    rig.collector("p", "jobs")
    rig.publish("counts", "p", *counts({Status.RUNNING: 1}))
    rig.publish("jobs", "p", holder("a", 8))
    rig.publish("usage", "p", usage("a", 0.0))
    _spend(rig, "p", "b", running=60)
    page = rig.see()
    assert ("Runtime goodput" in page.tiles()) == ("held" not in sections)
    hiding = {key for key in ("jobs", "held", "idle") if "not known: metrics.deny hides" in page.section(key)}
    assert hiding == sections
    if "held" in sections:
        assert page.tiles()["Accelerators held"][0] == "not known"
    if "idle" in sections:
        assert page.tiles()["Held and idle"][0] == "not known"
