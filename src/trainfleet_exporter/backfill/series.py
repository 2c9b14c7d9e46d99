"""From the model to series: the same names and labels as on /metrics, so that both are one series to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.config import Global
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.model import Readings, UsageSource
from trainfleet_exporter.page import Renderer, RenderSettings
from trainfleet_exporter.page.text import escape_label, is_too_long
from trainfleet_exporter.providers.history import Track

PLACES: Mapping[str, int] = {family.name: place for place, family in enumerate(FAMILIES)}
"""By family, its place in the public table: the order of the files."""
_OF_SOURCES = {"source": "trainfleet_job_usage_info", "timestamp": "trainfleet_job_usage_timestamp_seconds"}


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its family by its place in the table, and its labels as they stand in the file."""

    family: int
    labels: str


class Namer:
    """Names the series of one provider. `more` are labels that the target would have had from Prometheus."""

    def __init__(self, provider: str, settings: Global, more: Mapping[str, str]) -> None:
        metrics = settings.metrics
        self._provider = provider
        self._renderer = Renderer(RenderSettings(deny=tuple(metrics.deny), job_labels=tuple(metrics.job_labels)))
        self._first = "".join(f'{name}="{escape_label(value)}",' for name, value in sorted(more.items()))
        self._shown = self._renderer.shown

    def shows(self, family: str) -> bool:
        """Whether the config exposes a family."""
        return family in self._shown

    def of_track(self, track: Track) -> Series | None:
        """The series of some readings; None where it is not exposed, or an id is too long for a label."""
        if any(map(is_too_long, track.keys)):
            return None
        if track.of is UsageSource:
            name = _OF_SOURCES[track.field]
            if not self.shows(name):
                return None
            further = f',source="{escape_label(track.source)}"' if track.field == "source" else ""
            return Series(PLACES[name], self._labels(track.of, track.keys) + further)
        column = self._renderer.column(Readings(track.of, track.field, (), ()))
        if column is None:
            return None
        further = f',accelerator="{track.accelerator}"' if column.by_accelerator else ""
        return Series(PLACES[column.name], self._labels(track.of, track.keys) + further)

    def of_objects(self, objects: Sequence[object]) -> Iterator[tuple[str, Series, str]]:
        """Every sample of objects of the model: the family's name, the series, and the value as it is written."""
        for name, texts in self._renderer.render_at_once(self._provider, objects).lines.items():
            # A label can hold a newline only as an escape, and a value has no space. Other ends of lines are none here.
            for line in b"".join(texts).decode().removesuffix("\n").split("\n"):
                labels, _, value = line[len(name) + 1 :].rpartition("} ")
                yield name, Series(PLACES[name], self._first + labels), value

    def _labels(self, of: type, keys: Sequence[str]) -> str:
        labels = f'{self._first}provider="{escape_label(self._provider)}"'
        return labels + "".join(
            f',{name}="{escape_label(value)}"' for name, value in zip(KEYS[of][0], keys, strict=True)
        )
