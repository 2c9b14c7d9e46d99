"""Exposition pages: a strict parser that is independent of the code under test, and the differences of two pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from prometheus_client.openmetrics.parser import text_string_to_metric_families

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_VALUE = r"NaN|[+-]Inf|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ({_VALUE})")
_LABELS = re.compile(_LABEL)
_ESCAPED = re.compile(r"\\(.)")
_HELP = re.compile(rf"# HELP ({_NAME}) \S.*")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (\w+)")
_END = "# EOF\n"
_HISTOGRAM = ("_bucket", "_sum", "_count")
_TEXT_ENDINGS = {"counter": ("",), "gauge": ("",), "histogram": _HISTOGRAM, "summary": ("", "_sum", "_count")}
_OPENMETRICS_ENDINGS = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": (*_HISTOGRAM, "_created"),
    "info": ("_info",),
    "summary": ("", "_sum", "_count", "_created"),
    "unknown": ("",),
}
"""By type of a family, what its name has at the end in the names of its samples."""

Sample = tuple[str, dict[str, str], float]


Key = tuple[str, tuple[tuple[str, str], ...]]
"""A series: name and sorted labels."""


def sample(line: str) -> Sample:
    """Parse name, labels and value of one sample line without its newline. Raises ValueError."""
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a sample line: {line!r}")
    found = _LABELS.findall(match[2] or "")
    labels = {name: _ESCAPED.sub(_unescaped, text) if "\\" in text else text for name, text in found}
    if len(labels) < len(found):
        raise ValueError(f"a label twice: {line!r}")
    return match[1], labels, float(match[match.lastindex or 0])


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def samples(lines: bytes) -> list[Sample]:
    """Parse the samples of a page or of a part of it, and skip comment lines. Raises ValueError."""
    return [sample(line) for line in _lines(lines.decode()) if not line.startswith("#")]


def check(page: str) -> dict[Key, float]:
    """Return the series of a whole page, text or OpenMetrics, with their values.

    Raises ValueError if a line is invalid, a family has two heads, a sample is not below the head of its family, or a
    series appears twice. Prometheus rejects such a page, or silently keeps one of the two.
    """
    endings = _OPENMETRICS_ENDINGS if page.endswith(_END) else _TEXT_ENDINGS
    found: dict[Key, float] = {}
    families: set[str] = set()
    helped, names = "", frozenset[str]()
    for line in _lines(page.removesuffix(_END)):
        if not line.startswith("#"):
            name, labels, value = sample(line)
            key = (name, tuple(sorted(labels.items())))
            if name not in names:
                raise ValueError(f"not below the head of its family: {line!r}")
            if key in found:
                raise ValueError(f"twice on the page: {line!r}, before with the value {found[key]}")
            found[key] = value
        elif head := _HELP.fullmatch(line):
            helped, names = head[1], frozenset()
        elif (head := _TYPE.fullmatch(line)) and head[1] == helped and head[2] in endings:
            if helped in families:
                raise ValueError(f"a family twice: {line!r}")
            families.add(helped)
            names = frozenset(helped + ending for ending in endings[head[2]])
        else:
            raise ValueError(f"not a line of this format, or HELP and TYPE do not belong together: {line!r}")
    return found


def check_both(text: str, openmetrics: str) -> dict[Key, float]:
    """Check a page in both formats; return the series of the text. Raises ValueError, also if their series differ."""
    found, other = check(text), check(openmetrics)
    if differing := sorted(found.keys() ^ other.keys()):
        raise ValueError(f"only in one of the two formats: {'; '.join(map(words, differing[:5]))}")
    list(text_string_to_metric_families(openmetrics))  # another parser
    return found


def _lines(text: str) -> list[str]:
    """Return the lines. ValueError if the last one does not end."""
    if text and not text.endswith("\n"):
        raise ValueError(f"the page does not end with a newline but with {text[-20:]!r}")
    return text.split("\n")[:-1]


_OWN = ("trainfleet_exporter_", "trainfleet_provider_up", "process_", "python_")
_SUCCESS, _STATUS = "trainfleet_exporter_collector_success", "trainfleet_job_status"
ERRORS = "trainfleet_exporter_collector_errors_total"
REQUESTS = "trainfleet_exporter_api_requests_total"
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

    @property
    def complaints(self) -> list[str]:
        """Return in words the collectors whose last poll failed, and those that raised an unexpected exception."""
        return [f"{name} fails" for name in self.failing] + self.raised

    @property
    def raised(self) -> list[str]:
        """Return in words the collectors that raised an unexpected exception."""
        return [
            f"{labels['collector']} raised an exception that is none of errors.py"
            for labels, value in self.of(ERRORS, reason="internal")
            if value
        ]

    def states_of(self, job_id: str) -> list[str]:
        """Return the statuses that the page shows for a job: one on a correct page."""
        return [labels["status"] for labels, value in self.of(_STATUS, job_id=job_id) if value]


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


def shown(keys: Iterable[Key], page: Page, what: str) -> list[str]:
    """Return these series of a page in words, with their values."""
    return [f"{what}: {words(key)} {page.shown[key]}" for key in keys]


def gone(now: Page, before: Page, what: str = "gone") -> list[str]:
    """Return series that disappeared in words."""
    return [f"{what}: {words(key)}" for key in missing(now, before)]


def unlike(now: Page, before: Page) -> list[str]:
    """Return in words what a page after a fault has not as before."""
    return [
        *shown(wrong(now, before), now, "not as before"),
        *gone(now, before, "has not come back"),
        *(f"{name} fails" for name in now.failing),
    ]


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
