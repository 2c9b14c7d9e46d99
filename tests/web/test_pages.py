"""The pages, by HTTP as a client sees them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from trainfleet_conformance.page import check_both
from trainfleet_exporter.exposition import PageStore, Renderer, RenderSettings
from trainfleet_exporter.model import FinishedCount, JobCount, Status, Workspace
from trainfleet_exporter.telemetry import CollectorState, Standing, Telemetry
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.pages import Pages

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


@pytest.fixture
def pages() -> Pages:
    page_store, telemetry = PageStore(), Telemetry()
    renderer = Renderer(RenderSettings(deny=(), job_labels=()))
    objects = [
        Workspace("1", 'quote " back \\ line\nbreak'),
        JobCount("1", Status.RUNNING, "Running", 3),
        FinishedCount("1", Status.FAILED, 2),
    ]
    page_store.put("part", renderer.render("p", objects).lines)
    telemetry.watch(CollectorState("p", "jobs", 60.0, success=True))
    page_store.standing = lambda: replace(telemetry.standing(), config_text=lambda: "providers: []\n")
    return Pages(page_store=page_store, telemetry=telemetry)


def _ask(pages: Pages, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=make_app(pages))
        async with httpx.AsyncClient(transport=transport, base_url="http://exporter") as client:
            plain = {"accept": "*/*", "accept-encoding": "identity"}
            return await client.request(
                method, path, headers={**plain, **{k.replace("_", "-"): v for k, v in headers.items()}}
            )

    return asyncio.run(ask())


def _samples(families: Any) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in families
        for sample in family.samples
        if not sample.name.startswith(("process_", "python_"))
    }


@pytest.mark.parametrize("path", ["/metrics/", "/config/", "/-/healthy/", "//stranger.test/metrics/"])
def test_no_path_redirects_to_a_host_that_the_client_names(pages: Pages, path: str) -> None:
    answer = _ask(pages, f"http://exporter{path}", host="stranger.test")
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_metrics_as_openmetrics(pages: Pages) -> None:
    answer = _ask(pages, "/metrics", accept=OPENMETRICS)
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.text.endswith("# EOF\n")
    assert answer.text.count("# EOF") == 1
    assert "# TYPE trainfleet_jobs_finished counter\n" in answer.text
    text = _ask(pages, "/metrics").text
    assert check_both(text, answer.text)
    assert _samples(parse_openmetrics(answer.text)) == _samples(parse_text(text))


def test_other_methods_are_refused(pages: Pages) -> None:
    for path in ("/metrics", "/", "/-/healthy", "/-/ready", "/config"):
        assert _ask(pages, path, method="POST").status_code == 405


@dataclass
class _Reload:
    success: bool
    text: str
    asked: int = 0

    async def __call__(self) -> _Reload:
        self.asked += 1
        return self


def test_a_reload_is_asked_for_by_post_or_put(pages: Pages) -> None:
    good = _Reload(success=True, text="reloaded\nkept: p\n")
    for method in ("POST", "PUT"):
        answer = _ask(replace(pages, reload=good), "/-/reload", method=method)
        assert (answer.status_code, answer.text) == (200, good.text)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    bad = _Reload(success=False, text="not reloaded:\nconfig.yaml:1: <b>\n")
    answer = _ask(replace(pages, reload=bad), "/-/reload", method="POST")
    assert (answer.status_code, answer.text) == (500, bad.text)
    assert (good.asked, bad.asked) == (2, 1)
    for method in ("GET", "HEAD", "DELETE", "PATCH", "OPTIONS"):
        answer = _ask(replace(pages, reload=good), "/-/reload", method=method)
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == {"POST", "PUT"}
    assert good.asked == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://exporter.test"}, 200),
        ({"sec-fetch-site": "none"}, 200),
    ],
)
def test_a_page_of_another_site_cannot_ask_for_a_reload(pages: Pages, headers: dict[str, str], status: int) -> None:
    good = _Reload(success=True, text="reloaded\n")
    answer = _ask(replace(pages, reload=good), "/-/reload", method="POST", **{"host": "exporter.test", **headers})
    assert answer.status_code == status
    assert good.asked == (status == 200)


def test_reload_is_refused_without_the_flag(pages: Pages) -> None:
    for method in ("POST", "PUT"):
        answer = _ask(pages, "/-/reload", method=method)
        assert (answer.status_code, answer.text) == (403, "Lifecycle API is not enabled.\n")
    assert _ask(pages, "/-/reload").status_code == 405


def test_health_readiness_and_config(pages: Pages) -> None:
    assert _ask(pages, "/-/healthy").status_code == 200
    assert _ask(pages, "/-/ready").status_code == 200
    assert _ask(pages, "/config").text == "providers: []\n"
    pages.page_store.standing = lambda: Standing(waiting=["p/jobs"])
    waiting = _ask(pages, "/-/ready")
    assert waiting.status_code == 503
    assert "p/jobs" in waiting.text
