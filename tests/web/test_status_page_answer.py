"""The answer for `/` as a browser has it: its headers, and where its links lead."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

from tests.web.status_page_rig import Seen, healthy

IMAGES = Path(__file__).parents[2] / "docs/images"


def test_nothing_but_the_page_may_be_had() -> None:
    answer = healthy().ask()
    rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    (sheet,) = re.findall(rb"<style>(.*?)</style>", answer.content, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(sheet).digest()).decode()
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert b"url(" not in sheet
    assert b"@import" not in sheet
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "set-cookie" not in answer.headers
    assert not Seen(answer).all("*", style="")


def test_links() -> None:
    rig = healthy()
    page = Seen(rig.ask(replace(rig.pages(), telemetry_path="/fleet&co")))
    links = [found.get("href") or "" for found in page.all("a")]
    assert [link for link in links if not link.startswith("#")] == ["fleet&co", "config", "-/healthy", "-/ready"]
    anchors = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert anchors == {"providers", "jobs", "held", "idle"}
    assert anchors <= {found.get("id") for found in page.root.iter()}


def test_a_link_to_the_metrics_is_never_taken_for_a_scheme() -> None:
    rig = healthy()
    page = Seen(rig.ask(replace(rig.pages(), telemetry_path="/a:b/metrics")))
    assert page.all("a")[0].get("href") == "./a:b/metrics"
