"""Exposition pages: their series, read by the parsers of prometheus-client, and the differences of two pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

_COUNTER = re.compile(r"# HELP (.+?)(_total|) (.*)\n# TYPE \1\2 counter\n")
_HEAD = re.compile(r"^(?=# HELP )", re.MULTILINE)
_END = "# EOF\n"

Sample = tuple[str, dict[str, str], float]
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A series: name and sorted labels."""


def samples(lines: bytes) -> list[Sample]:
    """Parse the samples of a page or of a part of it. Raises ValueError."""
    return [(one.name, one.labels, one.value) for family in parse_text(lines.decode()) for one in family.samples]


def key_of(name: str, labels: dict[str, str]) -> Key:
    """Return the key of a sample."""
    return name, tuple(sorted(labels.items()))


def check(page: str) -> dict[Key, float]:
    """Return the series of a whole page, text or OpenMetrics, with their values.

    Raises ValueError if a line is invalid or has a time, a family has two heads or none, or a series appears twice.
    Prometheus rejects such a page, or silently keeps one of the two.
    """
    found: dict[Key, float] = {}
    families: set[str] = set()
    # The parser of OpenMetrics is strict, and that of text is not.
    page = page.removesuffix(_END) if page.endswith(_END) else _COUNTER.sub(_in_openmetrics, page)
    head, *blocks = _HEAD.split(page)
    if head:
        raise ValueError(f"not below the head of a family: {head[:200]!r}")
    for block in blocks:
        name, series = _family(block)
        if name in families or not found.keys().isdisjoint(series):
            raise ValueError(f"twice on the page: {name}, {[*map(words, found.keys() & series.keys())]}")
        families.add(name)
        found.update(series)
    return found


@lru_cache(maxsize=300)  # two pages have most families in common, and the parser is slow
def _family(block: str) -> tuple[str, dict[Key, float]]:
    """Return the name of a family and its series."""
    lines = Counter(line.rpartition(" ")[0] for line in block.split("\n")[:-1] if not line.startswith("#"))
    if twice := [series for series, count in lines.items() if count > 1]:
        raise ValueError(f"twice on the page: {'; '.join(twice)}")
    family, *others = parse_openmetrics(block + _END)
    if others or family.type == "unknown" or not family.documentation:
        raise ValueError(
            f"not below the head of its family, with HELP and TYPE: {[one.name for one in (family, *others)]}"
        )
    if any(one.timestamp is not None for one in family.samples):
        raise ValueError(f"a time in a sample: {family.name}")
    series = {key_of(one.name, one.labels): one.value for one in family.samples}
    if len(series) < len(lines):  # the parser leaves out the second one of two
        raise ValueError(f"twice on the page: a series of {family.name} with labels in another order")
    return family.name, series


def _in_openmetrics(head: re.Match[str]) -> str:
    """Write the head of a counter in the text format as OpenMetrics has it."""
    if not head[2]:
        raise ValueError(f"a counter without _total: {head[1]}")
    return f"# HELP {head[1]} {head[3]}\n# TYPE {head[1]} counter\n"


def check_both(text: str, openmetrics: str) -> dict[Key, float]:
    """Check a page in both formats; return the series of the text. Raises ValueError, also if their series differ."""
    found, other = check(text), check(openmetrics)
    if differing := sorted(found.keys() ^ other.keys()):
        raise ValueError(f"only in one of the two formats: {'; '.join(map(words, differing[:5]))}")
    return found


_OWN = ("trainfleet_exporter_", "trainfleet_provider_up", "process_", "python_")
_SUCCESS, _STATUS = "trainfleet_exporter_collector_success", "trainfleet_job_status"
ERRORS = "trainfleet_exporter_collector_errors_total"
LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
REQUESTS = "trainfleet_exporter_api_requests_total"
COUNTS = ("trainfleet_jobs", "_finished_total", "_pods", "_pool_nodes", "_pool_workloads")
"""Suffixes of families that count objects and show 0 if there is none."""
DATED = frozenset({"trainfleet_job_usage_timestamp_seconds", "trainfleet_job_phase_seconds"})
"""Families whose values change while the clouds do not."""


class Page:
    """Samples of the clouds (`shown`), and the exporter's own samples (`own`). Raises ValueError as `check` does."""

    def __init__(self, text: str) -> None:
        series = check(text)
        self.own = {key: value for key, value in series.items() if key[0].startswith(_OWN)}
        self.shown = {key: value for key, value in series.items() if key not in self.own}

    def of(self, family: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Return the samples of one family that have these labels."""
        for (name, pairs), value in (self.own if family.startswith(_OWN) else self.shown).items():
            if name == family and labels.items() <= (found := dict(pairs)).items():
                yield found, value

    def total(self, family: str, **labels: str) -> float:
        """Return the sum of these samples."""
        return sum(value for _, value in self.of(family, **labels))

    @property
    def failing(self) -> list[str]:
        """Return the collectors whose last poll failed."""
        return [labels["collector"] for labels, value in self.of(_SUCCESS) if not value]

    @property
    def complaints(self) -> list[str]:
        """Return in words the collectors whose last poll failed, and those that raised an unexpected exception."""
        raised = [labels["collector"] for labels, value in self.of(ERRORS, reason="internal") if value]
        failed = [f"{name} fails" for name in self.failing]
        return failed + [f"{name} raised an exception that is none of errors.py" for name in raised]

    def states_of(self, job_id: str) -> list[str]:
        """Return the statuses that the page shows for a job: one on a correct page."""
        return [labels["status"] for labels, value in self.of(_STATUS, job_id=job_id) if value]


def wrong(now: Page, before: Page) -> list[Key]:
    """Return series that are new or have another value, except a provider's facts while they are unknown."""
    return [
        key
        for key, value in now.shown.items()
        if (key not in before.shown or (key[0] not in DATED and value != before.shown[key]))
        and not (key[0] == "trainfleet_provider_info" and ("project_id", "") in key[1])
    ]


def missing(now: Page, before: Page) -> list[Key]:
    """Return series that disappeared."""
    return [key for key in before.shown if key not in now.shown]


def shown(keys: Iterable[Key], page: Page, what: str) -> list[str]:
    """Return these series of a page in words, with their values."""
    return [f"{what}: {words(key)} {page.shown[key]}" for key in keys]


def gone(now: Page, before: Page, what: str = "gone") -> list[str]:
    """Return series that disappeared in words."""
    return [f"{what}: {words(key)}" for key in missing(now, before)]


def unlike(now: Page, before: Page) -> list[str]:
    """Return in words what a page after a fault has not as before."""
    return [*shown(wrong(now, before), now, "not as before"), *gone(now, before, "has not come back"), *now.complaints]


def words(key: Key) -> str:
    """Write a series in a short form."""
    labels = ",".join(f"{name}={value[:40]!r}" for name, value in key[1] if name != "provider")
    return f"{key[0].removeprefix('trainfleet_')}{{{labels}}}"
