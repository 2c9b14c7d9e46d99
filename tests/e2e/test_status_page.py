"""The status page in a real Chromium: what is seen, on which screens, and that nothing else is asked for.

With TRAINFLEET_IMAGES=docs/images the docs' pictures are taken again; `pngquant --force --ext .png 256` then makes
them a third as large.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.processes import ExporterProcess, eventually, running_cloud, running_exporter
from tests.support.programs import need
from trainfleet_simulator import Fault

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, PHONE = (1280, 860), (390, 844)
LEAST_CONTRAST = 4.5
"""WCAG 2 AA, for text of any size."""

# For each text that is seen: its contrast with what is behind it, and the text.
_CONTRASTS = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const at = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !at.getClientRects().length || at.closest("caption, meter")) continue;
    const [a, b] = [light(parts(getComputedStyle(at).color)), light(behind(at))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walker.currentNode.data.trim()]);
  }
  return found;
}"""
# What reaches beyond the right edge of the window, or of its card.
_BEYOND = """() => [...document.body.querySelectorAll("*:not(caption)")]
  .filter(element => element.getBoundingClientRect().right >
    (element.closest(".card")?.getBoundingClientRect().right ?? innerWidth) + 0.5)
  .map(element => element.outerHTML.slice(0, 100))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = need("chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@contextmanager
def _opened(
    browser: Browser, url: str, size: tuple[int, int] = WIDE, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """The page, opened without scripts, in which nothing goes wrong and which loads nothing else."""
    reported: list[str] = []
    asked: list[str] = []
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: reported.append(message.text))
    page.on("pageerror", lambda error: reported.append(str(error)))
    page.on("dialog", lambda dialog: reported.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/")
    try:
        yield page
    finally:
        cookies = context.cookies()
        context.close()
    assert reported == []
    assert [address for address in asked if not address.startswith("data:")] == [f"{url}/"]
    assert cookies == []


def _keep(page: Page, name: str, tmp_path: Path, *, full: bool = True) -> None:
    """Take a picture, for the docs where that is wished."""
    folder = Path(os.environ.get("TRAINFLEET_IMAGES", tmp_path))
    assert len(page.screenshot(path=folder / f"status-{name}.png", full_page=full)) > 10_000


def _check_readable(page: Page) -> None:
    contrasts: list[tuple[float, str]] = page.evaluate(_CONTRASTS)
    assert len(contrasts) > 50
    assert [(round(ratio, 1), text) for ratio, text in contrasts if ratio < LEAST_CONTRAST] == []
    assert page.evaluate(_BEYOND) == []


def _lightness(page: Page) -> int:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))


def _says(exporter: ExporterProcess, *texts: str) -> Callable[[], bool]:
    def check() -> bool:
        page = exporter.client.get("/").text
        return all(text in page for text in texts)

    return check


def _columns(page: Page) -> dict[float, list[tuple[float, float]]]:
    """Return the bottom and the right edge of each card, by its left edge."""
    found: dict[float, list[tuple[float, float]]] = {}
    for card in page.locator("main section .card").all():
        if box := card.bounding_box():
            found.setdefault(box["x"], []).append((box["y"] + box["height"], box["x"] + box["width"]))
    return found


def test_the_demo_on_each_screen(browser: Browser, tmp_path: Path) -> None:
    with running_exporter(["demo", "--log.level=info"], tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        eventually(
            _says(exporter, "asr-hangs", "ascend-hangs", "p4d-hangs", *(f"All {n} collectors ok" for n in (10, 12, 5))),
            what="the idle jobs",
        )
        with _opened(browser, exporter.url) as page:
            assert page.title() == "OK · trainfleet-exporter"
            assert "simulated" in page.locator(".notice").inner_text()
            assert page.locator(".provider.is-ok").count() == 3
            assert "asr-hangs" in page.locator("#idle + .card tbody th bdi:first-child").all_inner_texts()
            light = _lightness(page)
            red, green, _ = _border(page)
            assert green > 2 * red
            # Two columns of about one height.
            left, right = sorted(_columns(page).items())
            assert max(right for _, right in left[1]) <= right[0]
            ends = [max(bottom for bottom, _ in cards) for _, cards in (left, right)]
            assert min(ends) > 0.8 * max(ends)
            idle = page.locator("#idle").bounding_box()
            assert idle is not None
            assert idle["y"] < WIDE[1]
            _check_readable(page)
            _keep(page, "wide", tmp_path)
        with _opened(browser, exporter.url, PHONE) as page:
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
            _check_readable(page)
            _keep(page, "phone", tmp_path, full=False)
        with _opened(browser, exporter.url, scheme="dark") as page:
            assert light > 600
            assert _lightness(page) < 100
            _check_readable(page)
            _keep(page, "dark", tmp_path)
        assert exporter.end(signal=signal.SIGTERM) == 0


def test_a_failing_provider_and_hostile_names(browser: Browser, tmp_path: Path) -> None:
    with running_cloud(clouds=("pai", "modelarts")) as (simulator, url):
        config = tmp_path / "config.yaml"
        often = re.sub("(interval): [0-9]+s", r"\1: 5s", simulator.config_yaml(url)).replace("8s", "4s")
        config.write_text(often, encoding="utf-8")
        with running_exporter([f"--config.file={config}"], tmp_path / "log") as exporter:
            exporter.wait_until_ready()
            for api in ("modelarts", "aom", "iam"):
                simulator.faults.add(Fault(match={"api": api}, kind="reset"))
            errors = "connection reset before an answer came"  # of which a later poll may show others
            eventually(_says(exporter, "1 of 2 down", errors), what="a provider that is down")
            with _opened(browser, exporter.url) as page:
                first = page.locator(".provider").first.inner_text()
                assert [each for each in ("sim-modelarts-north4", "✕ down") if each not in first] == []
                red, green, _ = _border(page)
                assert red > 2 * green
                _check_readable(page)
                _keep(page, "failing", tmp_path)
            simulator.faults.add(Fault(match={"operation": "ListJobs"}, kind="hostile_strings"))
            eventually(_says(exporter, "back\\slash"), what="a hostile name")
            for size in (WIDE, PHONE):
                with _opened(browser, exporter.url, size) as page:
                    assert page.locator("script, iframe, img, form, object").count() == 0
                    assert page.locator("h1").count() == 1
                    _check_readable(page)
            assert exporter.end(signal=signal.SIGTERM) == 0


def _border(page: Page) -> list[int]:
    """Red, green and blue of the border of the first provider's card."""
    colour: Any = page.locator(".provider").first.evaluate("card => getComputedStyle(card).borderLeftColor")
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
