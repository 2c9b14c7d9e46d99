"""Exposition pages: a strict parser that is independent of the code under test, and the differences of two pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE = re.compile(rf"({_NAME})\{{({_LABEL}(?:,{_LABEL})*)\}} (\S+)")
_ESCAPED = re.compile(r"\\(.)")

Sample = tuple[str, dict[str, str], float]


def sample(line: str) -> Sample:
    """Parse name, labels and value of one sample line without its newline."""
    match = _SAMPLE.fullmatch(line)
    assert match, f"not a sample line: {line!r}"
    found = re.findall(_LABEL, match[2])
    labels = {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], text) for name, text in found}
    assert len(labels) == len(found), f"a label twice: {line!r}"
    return match[1], labels, float(match[match.lastindex or 0])


def samples(page: bytes) -> list[Sample]:
    """Parse all samples of a page and skip comment lines."""
    text = page.decode()
    assert not text or text.endswith("\n")
    return [sample(line) for line in text.split("\n")[:-1] if not line.startswith("#")]


def parse_text(page: str) -> list[Metric]:
    """Parse a page of the text format with prometheus-client."""
    return list(text_families(page))


def parse_openmetrics(page: str) -> list[Metric]:
    """Parse an OpenMetrics page with prometheus-client."""
    return list(openmetrics_families(page))


def joined(rendered: dict[str, list[bytes]]) -> bytes:
    """Join rendered samples to lines."""
    return b"".join(piece for pieces in rendered.values() for piece in pieces)


def total(texts: Iterable[bytes]) -> int:
    return sum(map(len, texts))


Key = tuple[str, tuple[tuple[str, str], ...]]
"""A series: family and sorted labels."""
_OWN = ("trainfleet_exporter_", "trainfleet_provider_up", "process_", "python_")
_SUCCESS, _STATUS = "trainfleet_exporter_collector_success", "trainfleet_job_status"
DATED = frozenset({"trainfleet_job_usage_timestamp_seconds", "trainfleet_job_phase_seconds"})
"""Families whose values change while the clouds do not."""


class Page:
    """Samples of the clouds (`shown`), and the exporter's own samples (`own`)."""

    def __init__(self, text: str) -> None:
        self.shown: dict[Key, float] = {}
        self.own: dict[Key, float] = {}
        for family, labels, value in samples(_labelled(text)):
            key = (family, tuple(sorted(labels.items())))
            target = self.own if family.startswith(_OWN) else self.shown
            assert key not in target, f"twice on the page: {key}"
            target[key] = value

    def of(self, family: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Return the samples of one family that have these labels."""
        for (name, pairs), value in (self.own if family.startswith(_OWN) else self.shown).items():
            if name == family:
                found = dict(pairs)
                if labels.items() <= found.items():
                    yield found, value

    def total(self, family: str, **labels: str) -> float:
        """Return the sum of these samples."""
        return sum(value for _, value in self.of(family, **labels))

    @property
    def failing(self) -> list[str]:
        """Return the collectors whose last poll failed."""
        return [labels["collector"] for labels, value in self.of(_SUCCESS) if not value]

    def states_of(self, job_id: str) -> list[str]:
        """Return the statuses that the page shows for a job: one on a correct page."""
        return [labels["status"] for labels, value in self.of(_STATUS, job_id=job_id) if value]


def _labelled(text: str) -> bytes:
    """Remove samples without labels, which the strict parser does not accept."""
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line or "{" in line.partition(" ")[0]).encode()


def wrong(now: Page, before: Page) -> list[Key]:
    """Return series that are new or have another value."""
    return [
        key
        for key, value in now.shown.items()
        if (key not in before.shown or (key[0] not in DATED and value != before.shown[key])) and not _says_nothing(key)
    ]


def _says_nothing(key: Key) -> bool:
    """The labels of a provider have the known facts, and are empty for unknown ones."""
    return key[0] == "trainfleet_provider_info" and ("project_id", "") in key[1]


def missing(now: Page, before: Page) -> list[Key]:
    """Return series that disappeared."""
    return [key for key in before.shown if key not in now.shown]


def matching(keys: Iterable[Key], patterns: Iterable[str], provider: str) -> set[Key]:
    """Return the series of a provider whose family (without `trainfleet_`) matches one of the globs."""
    globs = tuple(patterns)
    return {
        key
        for key in keys
        if ("provider", provider) in key[1]
        and any(fnmatchcase(key[0].removeprefix("trainfleet_"), glob) for glob in globs)
    }


def words(key: Key) -> str:
    """Write a series in a short form."""
    labels = ",".join(f"{name}={value[:40]!r}" for name, value in key[1] if name != "provider")
    return f"{key[0].removeprefix('trainfleet_')}{{{labels}}}"
