"""Whatever clouds and configs call things stays text: it adds no element, no attribute, and is cut."""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from xml.etree.ElementTree import Element

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web.status_page_rig import NOW, Rig, Seen, counts, holder, usage
from trainfleet_exporter.model import ProviderFacts, Status
from trainfleet_exporter.telemetry import LastError

NASTY = [
    '<script>alert(1)</script>"><img src=x onerror=alert(1)>',
    "</style></title></bdi></td></table><h1>all is well</h1>",
    "'\" onmouseover='alert(1)",
    "&lt;b&gt; &amp; &#60;i&#62; &nosuch;",
    "\u202egnp.exe\u2066\u200f\u2029",
    "a\x00b\x1b[31mc\x7f\x85d\r\ne\tf",
    "\ud800 half \udfff \ufffe \ufdd0",
    "x" * 4_000,  # an object with an id over 4,096 bytes is not on the page
    "<" * 4_000,
    " " * 4_000 + "end",
    "שלום עולם",
    "]]><!--",
    "--><!DOCTYPE html>",
    '\\n\\"} 1\ntrainfleet_job_info{',
    "{{7*7}} ${HOME} %s",
]
PROVIDER = re.compile("[\ud800-\udfff]")
"""What a config, which is a file of UTF-8, cannot call a provider."""
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=80))


def _page(name: str) -> Seen:
    """A page on which every text from outside is this one."""
    rig = Rig()
    provider = PROVIDER.sub("_", f"p{name}")
    rig.failing(provider, f"c{name}", f"e{name}", part=f"k{name}")
    rig.collector("well", "jobs", error=LastError(NOW - 60, "", f"e{name}"))
    rig.telemetry.attempt("well", api=f"a{name}", operation="x", outcome="ok", seconds=0.1)
    rig.publish("facts", "well", ProviderFacts(f"f{name}", f"r{name}"))
    rig.publish("facts 2", provider, ProviderFacts(f"f{name}", f"r{name}"))
    facts: dict[str, Any] = {"name": f"n{name}", "user_name": f"u{name}", "pool_id": f"q{name}", "started": NOW}
    rig.publish("jobs", "well", holder(f"j{name}", 8, model=f"m{name}", **facts))
    rig.publish("jobs 2", provider, holder("other", 8, **facts))
    rig.publish("usage", "well", usage(f"j{name}", 0.0))
    rig.publish("counts", provider, *counts({Status.RUNNING: 1}, f"w{name}"))
    return rig.see()


def _skeleton(root: Element) -> list[tuple[str, tuple[str, ...]]]:
    """Tags with the names of their attributes, in their order."""
    return [(found.tag, tuple(found.keys())) for found in root.iter()]


PLAIN = _skeleton(_page("plain").root)


@settings(max_examples=40, deadline=None)
@given(TEXTS)
def test_no_text_becomes_markup(name: str) -> None:
    page = _page(name)
    assert _skeleton(page.root) == PLAIN
    for found in page.root.iter():
        assert found.get("href", "#").startswith(("#", "metrics", "config", "-/", "data:image/svg+xml,"))
    shown = "".join(page.root.itertext())
    # Nothing that is not printed, nor what turns the direction of what follows.
    harmful = {char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char != "\n"}
    assert not harmful
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]", shown)
    assert len(page.answer.content) < 60_000
