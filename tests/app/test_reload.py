"""Reloads: unchanged providers go on, changed ones are rebuilt, removed ones end, and a bad config changes nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.app.rig import Site, site
from tests.support.clock import START

A = "  - {name: a, platform: small, region: cn-x}\n"
B = "  - {name: b, platform: small, region: cn-x}\n"
C = "  - {name: c, platform: small, region: cn-x}\n"
LOADED = "config_last_reload_success_timestamp_seconds"


def config(*providers: str, head: str = "") -> str:
    return f"{head}providers:\n{''.join(providers)}"


async def test_unchanged_provider_continues_after_a_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(90)  # two polls of 5 calls each
        before, runners = await here.of("a"), here.exporter.runners[:2]
        assert len(before) > 20
        outcome = await here.reload(config(A, C))
        assert (outcome.success, outcome.text) == (True, "reloaded\nadded: c\nremoved: b\nkept: a\n")
        await asyncio.sleep(1)
        assert await here.of("a") == before
        assert here.exporter.runners[:2] == runners
        assert here.world.calls == {"a": 10, "b": 10, "c": 5}
        assert here.world.built == {"a": 1, "b": 1, "c": 1}
        assert here.world.closed == {"b": 1}
        await asyncio.sleep(30)  # its third poll is 120 s after its first, and not 60 s after the reload
        assert here.world.calls == {"a": 15, "b": 10, "c": 5}


async def test_of_a_removed_provider_nothing_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limited = B.replace("cn-x}", "cn-x, limits: {monthly_calls: {dlc: 100000}}}")

    async with site(tmp_path, config(A, limited), caplog) as here:
        await asyncio.sleep(1)
        names = {line.partition("{")[0] for line in await here.of("b")}
        for name in ("provider_info", "provider_up", "jobs"):
            assert f"trainfleet_{name}" in names
        for name in ("collector_parts", "api_requests_total", "api_request_duration_seconds_bucket"):
            assert f"trainfleet_exporter_{name}" in names
        for name in ("dropped_readings_total", "api_budget_calls", "credentials_expiry_timestamp_seconds"):
            assert f"trainfleet_exporter_{name}" in names
        assert (await here.reload(config(A))).success
        assert [line for line in await here.page() if "b" in line.partition('provider="')[2][:1]] == []
        await asyncio.sleep(600)
        assert await here.of("b") == []
        assert here.world.calls["b"] == 5
        # Come back it counts from nothing.
        await here.reload(config(A, limited))
        await asyncio.sleep(1)
        labels = {"provider": "b", "api": "dlc", "operation": "ListJobs", "outcome": "ok"}
        assert here.own("api_requests_total", **labels) == 5


async def test_changed_provider_is_rebuilt_and_keeps_its_counters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(31)
        labels = {"provider": "b", "api": "dlc", "operation": "ListJobs", "outcome": "ok"}
        assert here.own("api_requests_total", **labels) == 5
        here.world.slow.add("b")
        assert (await here.reload(config(A, B.replace("cn-x", "cn-y")))).text == "reloaded\nchanged: b\nkept: a\n"
        # What it showed is gone until its first poll ends; what is known of it is shown at once.
        shown = await here.of("b")
        assert [line for line in shown if line.startswith(("trainfleet_jobs", "trainfleet_provider_info"))] == [
            'trainfleet_provider_info{provider="b",platform="small",region="cn-y",project_id=""} 1'
        ]
        assert here.own("collector_success", provider="b", collector="jobs") is None
        assert here.own("collector_parts", provider="b", collector="jobs") == 0
        await asyncio.sleep(1)
        assert here.world.calls["b"] == 7  # both collectors began at once
        here.world.slow.clear()
        await asyncio.sleep(58)
        assert here.own("api_requests_total", **labels) == 10
        assert 'trainfleet_jobs{provider="b",workspace_id="b-jobs"' in "\n".join(await here.of("b"))


async def test_a_collector_that_the_new_config_lacks_loses_its_series(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(61)
        assert any('collector="pods"' in line for line in await here.of("b"))
        dropped = here.own("dropped_readings_total", provider="b", collector="jobs", reason="no_data")
        assert (await here.reload(config(A, B.replace("}", ", pods: false}")))).success
        await asyncio.sleep(1)
        found = await here.of("b")
        assert not any('collector="pods"' in line or "b-pods" in line for line in found)
        assert any("b-jobs" in line for line in found)
        now = here.own("dropped_readings_total", provider="b", collector="jobs", reason="no_data")
        assert dropped is not None
        assert now == dropped + 1
        assert any('collector="pods"' in line for line in await here.of("a"))


BAD = config(A, B, head="global: {poll_interval: 1 parsec, keep_last_good_polls: many}\n")


async def test_a_bad_config_changes_nothing_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(31)
        assert (here.own("config_last_reload_successful"), here.own(LOADED)) == (1, START)
        before = [line for line in await here.page() if "reload" not in line]
        running = here.exporter.config
        outcome = await here.reload(BAD)
        assert not outcome.success
        lines = outcome.text.splitlines()
        assert lines[0] == "not reloaded:"
        assert [line.partition(": found")[0] for line in lines[1:]] == [
            f"{here.path}:1: global.keep_last_good_polls",
            f"{here.path}:1: global.poll_interval",
        ]
        assert here.log(logging.ERROR) == ["not reloaded; the old config stays in use"] * 2
        errors = [vars(record)["fields"] for record in caplog.records if record.levelno == logging.ERROR]
        assert errors == [{"error": line} for line in lines[1:]]
        assert (here.own("config_last_reload_successful"), here.own(LOADED)) == (0, START)
        assert [line for line in await here.page() if "reload" not in line] == before
        assert here.exporter.config is running
        here.path.unlink()
        assert "No such file or directory" in (await here.reloader.reload()).text
        await asyncio.sleep(30)
        assert here.world.calls == {"a": 10, "b": 10}
        assert here.world.built == {"a": 1, "b": 1}
        await here.reload(config(A, B))
        assert here.own("config_last_reload_successful") == 1
        assert here.own(LOADED) == START + 61
        assert here.log(logging.INFO)[-1] == "reloaded"
        assert caplog.records[-1].__dict__["fields"] == {"kept": "a,b"}


async def test_providers_that_fail_to_build_are_named_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(31)
        before = [line for line in await here.page() if "reload" not in line]
        unfit = [line.replace("}", ", unfit: true}") for line in (A, C)]
        outcome = await here.reload(config(B.replace("cn-x", "cn-y"), *unfit))
        assert outcome.text == ("not reloaded:\nprovider a: it is out of order\nprovider c: it is out of order\n")
        assert len(here.log(logging.ERROR)) == 2
        assert [line for line in await here.page() if "reload" not in line] == before
        await asyncio.sleep(30)
        assert here.world.calls == {"a": 10, "b": 10}


async def test_a_poll_that_is_under_way_is_ended_and_has_not_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(59)
        here.world.slow |= {"a", "b"}
        await asyncio.sleep(11)  # ten seconds into a poll of each
        assert here.world.calls == {"a": 7, "b": 7}
        loop = asyncio.get_running_loop()
        began = loop.time()
        await here.reload(config(A, B.replace("cn-x", "cn-y")))
        assert loop.time() - began < 0.1
        here.world.slow.clear()
        await asyncio.sleep(30)
        assert not [line for line in await here.page() if line.startswith("trainfleet_exporter_collector_errors")]
        assert here.log(logging.WARNING) == []
        # Both were sent, and are billed.
        labels = {"provider": "b", "api": "dlc", "operation": "ListJobs"}
        assert here.own("api_requests_total", **labels, outcome="timeout") == 2
        assert here.own("api_requests_total", **labels, outcome="ok") == 5 + 5
        labels["provider"] = "a"
        assert here.own("api_requests_total", **labels, outcome="timeout") is None
        assert here.own("collector_success", provider="a", collector="jobs") == 1


async def test_what_does_not_end_is_neither_waited_for_nor_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = B.replace("}", ", stubborn: true}")

    async with site(tmp_path, config(A, stubborn), caplog) as here:
        here.world.slow.add("b")
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert (await here.reload(config(A))).success
        assert loop.time() - began == pytest.approx(5, abs=0.2)
        assert here.log(logging.WARNING) == ["removed providers did not end in time"]
        assert await here.of("b") == []
        calls = here.world.calls["b"]
        await asyncio.sleep(60)  # by now it has made another call, and published
        assert here.world.calls["b"] > calls
        assert await here.of("b") == []
        assert here.own("config_last_reload_successful") == 1


async def test_reloads_run_in_turn_and_waiting_ones_are_merged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, config(A), caplog) as here:
        await asyncio.sleep(1)
        reads = here.reads
        first = asyncio.create_task(here.reload(config(A, B)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        here.write(config(A, C))
        later = [asyncio.create_task(here.reloader.reload()) for _ in range(5)]
        outcomes = await asyncio.gather(first, *later)
        assert all(outcome.success for outcome in outcomes)
        assert here.reads - reads == 2
        assert [provider.name for provider in here.exporter.providers] == ["a", "c"]
        assert len(set(map(id, outcomes[1:]))) == 1


async def test_the_page_has_the_order_of_the_config(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(A, B), caplog) as here:
        await asyncio.sleep(1)
        assert (await here.reload(config(C, B, A))).text == "reloaded\nadded: c\nkept: b,a\n"
        await asyncio.sleep(1)
        for name in ("provider_info", "provider_up", "exporter_collector_parts"):
            lines = [line for line in await here.page() if line.startswith(f"trainfleet_{name}{{")]
            order = [line.partition('provider="')[2][0] for line in lines]
            assert order == sorted(order, reverse=True)
            assert set(order) == {"a", "b", "c"}


async def test_a_client_that_goes_away_does_not_end_a_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(A), caplog) as here:
        await asyncio.sleep(1)
        waiting = asyncio.create_task(here.reload(config(A, B)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(1)
        assert [provider.name for provider in here.exporter.providers] == ["a", "b"]


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13])
async def test_a_reload_during_the_stop_leaves_one_config_or_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, after: int
) -> None:
    async def stop(here: Site) -> None:
        await here.reloader.stop()
        await here.schedule.stop()
        await here.exporter.aclose()

    async with site(tmp_path, config(A, B), caplog) as here:
        here.world.slow |= {"a", "b"}
        await asyncio.sleep(1)
        reload = asyncio.create_task(here.reload(config(B.replace("cn-x", "cn-y"), C)))
        for _ in range(after):
            await asyncio.sleep(0.0001)
        await stop(here)
        outcome = await reload
        names = [provider.name for provider in here.exporter.providers]
        assert (names, outcome.success) in ((["a", "b"], False), (["b", "c"], True), (["b", "c"], False))
        if not outcome.success:
            assert outcome.text == "not reloaded: the exporter is stopping\n"
        assert not (await here.reloader.reload()).success
        calls = here.world.calls.copy()
        await asyncio.sleep(300)
        assert here.world.calls == calls
        assert here.log(logging.ERROR) == here.log(logging.WARNING) == []


async def test_ready_once_is_ready_still(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(A), caplog) as here:
        here.world.slow |= {"a", "b"}
        await asyncio.sleep(1)
        await here.reload(config(A, B))
        assert here.exporter.waiting_for() == ["a/jobs", "a/pods", "b/jobs", "b/pods"]  # not ready yet
        here.world.slow.clear()
        await asyncio.sleep(40)
        here.world.slow.add("c")
        await here.reload(config(A, B, C))  # ready before anybody asked
        assert here.exporter.waiting_for() == []


async def test_another_ca_file_of_the_same_name_is_another_config(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssl.create_default_context", lambda **_: None)  # any text will do

    (tmp_path / "ca.pem").write_text("one")
    text = config(A, B.replace("}", ", http: {ca_file: ca.pem}}"))
    async with site(tmp_path, text, caplog) as here:
        assert (await here.reload(text)).text == "reloaded\nkept: a,b\n"
        (tmp_path / "ca.pem").write_text("two")
        assert (await here.reload(text)).text == "reloaded\nchanged: b\nkept: a\n"
