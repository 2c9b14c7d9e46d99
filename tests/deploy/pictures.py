"""Pictures of the dashboards for the docs: `python -m tests.deploy.pictures` writes docs/images/dashboard-*.svg.

Grafana is not needed. A real Prometheus holds two hours of the simulated clouds, and each panel's queries are drawn in
Grafana's layout. The pictures show what Grafana would show, but not exactly how.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from deploy.generator import DEPLOY

from tests.deploy.boards import Board, boards
from tests.deploy.history import record_history
from tests.deploy.history_server import HistoryServer, Series, serving_history
from tests.deploy.picture_values import PALETTE, Look, color_of, legend, table_rows

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_COLUMN, _ROW, _GAP = 50, 34, 6
_LINE = 16
_TEXT, _DIM, _PAGE, _PANEL, _EDGE = "#ccccdc", "#8e8e99", "#111217", "#181b1f", "#2c3235"
_GAUGE = 16
"""The width in letters of a column with a gauge."""
_LETTER = 6.2
"""The approximate width in pixels of a letter of 11 pixels."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    x: int
    y: int
    width: int
    height: int


Found = Sequence[tuple[str, Series]]
"""Series with their names."""


def path_of(board: Board) -> Path:
    """Return the path of the picture of a dashboard."""
    return IMAGES / f"{board.name.replace('trainfleet', 'dashboard')}.svg"


class Picture:
    """The SVG picture of a dashboard."""

    def __init__(self, server: HistoryServer, board: Board, chosen: Mapping[str, str]) -> None:
        self._server, self._board, self._chosen = server, board, chosen
        self._parts: list[str] = []

    def drawn(self) -> str:
        """Return the SVG of the whole dashboard."""
        height = 0
        for panel in self._board.json["panels"]:
            place = panel["gridPos"]
            x, y = place["x"] * _COLUMN, place["y"] * _ROW
            self._panel(panel, Box(x, y, place["w"] * _COLUMN - _GAP, place["h"] * _ROW - _GAP))
            height = max(height, y + place["h"] * _ROW)
        width = 24 * _COLUMN - _GAP
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 16}" width="{width + 16}"'
            f' font-family="Helvetica,Arial,sans-serif" font-size="11" fill="{_TEXT}">'
        )
        back = f'<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" fill="{_PAGE}"/>'
        return "\n".join([head, back, *self._parts, "</svg>\n"])

    def _panel(self, panel: Mapping[str, Any], box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        title = self._board.filled(panel["title"], self._chosen)
        if panel["type"] == "row":
            self._text(x + 4, y + 19, f"▾ {title}", size=14)
            return
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="2" fill="{_PANEL}" stroke="{_EDGE}"/>'
        )
        self._text(x + 8, y + 16, _cut(title, width - 16, 12), size=12)
        answers = [
            [(self._board.filled(target["legendFormat"], self._chosen), series) for series in self._ask(target)]
            for target in panel["targets"]
        ]
        inner = Box(x + 8, y + 26, width - 16, height - 34)
        if panel["type"] == "table":
            self._table(panel, [[series for _, series in answer] for answer in answers], inner)
            return
        found = [(legend(template, series.labels), series) for answer in answers for template, series in answer]
        if not found:
            self._text(x + width / 2, y + height / 2 + 8, "no data", color=_DIM, anchor="middle", size=14)
            return
        draw = {"stat": self._stat, "timeseries": self._lines, "state-timeline": self._states, "bargauge": self._bars}
        draw[panel["type"]](panel, found, inner)

    def _ask(self, target: Mapping[str, Any]) -> Sequence[Series]:
        expr = self._board.filled(target["expr"], self._chosen)
        found = self._server.instant(expr) if target["instant"] else self._server.range(expr)
        numbers = [
            Series(one.labels, {when: value for when, value in one.values.items() if math.isfinite(value)})
            for one in found
        ]
        return [one for one in numbers if one.values]

    def _text(self, x: float, y: float, text: str, *, color: str = "", anchor: str = "", size: int = 11) -> None:
        more = f' fill="{color}"' if color else ""
        more += f' text-anchor="{anchor}"' if anchor else ""
        more += f' font-size="{size}"' if size != 11 else ""
        self._parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>')

    def _rect(self, x: float, y: float, width: float, height: float, *, color: str, opacity: float = 1) -> None:
        more = f' opacity="{opacity}"' if opacity < 1 else ""
        place = f'x="{x:.0f}" y="{y:.0f}" width="{max(width, 1):.0f}" height="{height:.0f}"'
        self._parts.append(f'<rect {place} fill="{color}"{more}/>')

    def _stat(self, panel: Mapping[str, Any], found: Found, box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        look = Look(panel["fieldConfig"]["defaults"])
        found = found[:3]
        for number, (name, series) in enumerate(found):
            value = _last(series)
            text, color = look.text(value), look.color(value)
            if panel["options"]["textMode"] == "name":
                text = name
            middle = y + height * (number + 0.5) / len(found)
            size = min(26, int(height / len(found) * 0.6), int(width / max(len(text), 1) / 0.6))
            if len(found) > 1:
                self._text(x, middle + 4, _cut(name, width / 2, 11), color=_DIM)
                self._text(x + width, middle + 6, text, color=color, anchor="end", size=min(size, 18))
            else:
                self._text(x + width / 2, middle + size / 3, text, color=color, anchor="middle", size=max(size, 11))

    def _lines(self, panel: Mapping[str, Any], found: Found, box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        defaults = panel["fieldConfig"]["defaults"]
        look, stacked = Look(defaults), defaults["custom"]["stacking"]["mode"] == "normal"
        fixed = {
            override["matcher"]["options"]: color_of(entry["value"]["fixedColor"])
            for override in panel["fieldConfig"]["overrides"]
            for entry in override["properties"]
            if entry["id"] == "color"
        }
        found = sorted(found, key=lambda one: -_last(one[1]))
        rows = min(len(found), 4)
        plot = height - rows * _LINE - 16
        start, end = self._server.history.start, self._server.history.end
        below: dict[float, float] = {}
        curves: list[tuple[str, str, dict[float, float]]] = []
        for number, (name, series) in enumerate(found):
            values = dict(series.values)
            if stacked:
                values = {when: value + below.get(when, 0) for when, value in values.items()}
                below |= values
            curves.append((name, fixed.get(name, PALETTE[number % len(PALETTE)]), values))
        low = defaults.get("min") or 0
        high = defaults.get("max") or max((max(values.values()) for *_, values in curves), default=0) * 1.05 or 1
        left = x + 46
        for tick in _ticks(low, high):
            at = y + plot - plot * (tick - low) / (high - low)
            self._parts.append(f'<path d="M{left} {at:.0f}H{x + width}" stroke="{_EDGE}"/>')
            self._text(left - 4, at + 4, look.text(tick), color=_DIM, anchor="end")

        def point(when: float, value: float) -> tuple[int, int]:
            across = left + (width - 46) * (when - start) / (end - start)
            return round(across), round(y + plot - plot * min(max((value - low) / (high - low), 0), 1))

        for _, color, values in reversed(curves):
            for stretch in _stretches(values, 60):
                points = [point(when, value) for when, value in stretch]
                path = _steps(points)
                if stacked:
                    area = f"{path}V{y + plot}H{points[0][0]}Z"
                    self._parts.append(f'<path d="{area}" fill="{color}" stroke="{color}" fill-opacity=".3"/>')
                else:
                    self._parts.append(f'<path d="{path}" fill="none" stroke="{color}"/>')
        for part in range(5):
            minutes = 30 * part
            text = f"{4 + minutes // 60:02}:{minutes % 60:02}"
            anchor = {0: "start", 4: "end"}.get(part, "middle")
            self._text(left + (width - 46) * part / 4, y + plot + 12, text, color=_DIM, anchor=anchor)
        for number, (name, series) in enumerate(found[:rows]):
            at = y + plot + 16 + (number + 1) * _LINE - 3
            more = f" (and {len(found) - rows} more)" if number == rows - 1 and len(found) > rows else ""
            self._rect(x, at - 6, 12, 3, color=curves[number][1])
            self._text(x + 18, at, _cut(f"{name}{more}", width - 110, 11))
            self._text(x + width, at, look.text(_last(series)), anchor="end")

    def _states(self, panel: Mapping[str, Any], found: Found, box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        look, start, end = (
            Look(panel["fieldConfig"]["defaults"]),
            self._server.history.start,
            self._server.history.end,
        )
        tall = min((height - 4) / len(found), 34)
        for number, (name, series) in enumerate(found):
            at, left = y + number * tall, x + 180
            self._text(x, at + tall / 2 + 4, _cut(name, 175, 11), color=_DIM)
            for stretch in _equal(series.values, 60):
                (first, value), (last, _) = stretch
                scale = (width - 180) / (end - start)
                color = look.color(value)
                self._rect(
                    left + (first - start) * scale,
                    at + 1,
                    (last - first + 60) * scale,
                    tall - 3,
                    color=color,
                    opacity=0.75,
                )

    def _bars(self, panel: Mapping[str, Any], found: Found, box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        defaults = panel["fieldConfig"]["defaults"]
        look = Look(defaults)
        found = sorted(found, key=lambda one: -_last(one[1]))[: int(height / 20)]
        high = defaults.get("max") or max(_last(series) for _, series in found) or 1
        longest = max((len(look.text(_last(series))) for _, series in found), default=0)
        left, room = x + width * 0.36, width * 0.64 - longest * _LETTER - 8
        for number, (name, series) in enumerate(found):
            at, value = y + number * min(height / len(found), 30), _last(series)
            self._text(x, at + 14, _cut(name, width * 0.34, 11), color=_DIM)
            self._rect(left, at + 2, room, 15, color=_EDGE)
            self._rect(left, at + 2, room * min(value / high, 1), 15, color=look.color(value, "#73BF69"))
            self._text(x + width, at + 14, look.text(value), color=look.color(value), anchor="end")

    def _table(self, panel: Mapping[str, Any], answers: Sequence[Sequence[Series]], box: Box) -> None:
        x, y, width, height = box.x, box.y, box.width, box.height
        columns, rows = table_rows(panel, answers)
        if not rows:
            self._text(x + width / 2, y + height / 2, "no data", color=_DIM, anchor="middle", size=14)
            return
        fit = int(height / 20) - 1
        texts = [[cell.text for cell in row] for row in rows[:fit]]
        widest = [max(len(name), *(len(row[number]) for row in texts), 4) + 2 for number, name in enumerate(columns)]
        for number in range(len(columns)):
            if any(row[number].share is not None for row in rows):
                widest[number] = max(widest[number], _GAUGE)
        scale, left = width / sum(widest), float(x)
        for number, name in enumerate(columns):
            room = widest[number] * scale
            self._text(left, y + 12, _cut(name, room - 4, 11), color="#6E9FFF")
            for line, row in enumerate(rows[:fit]):
                at = y + (line + 1) * 20
                cell = row[number]
                if cell.share is not None:
                    self._rect(
                        left,
                        at + 3,
                        (room - 60) * min(max(cell.share, 0), 1),
                        12,
                        color=cell.color or _TEXT,
                        opacity=0.7,
                    )
                    self._text(left + room - 12, at + 13, cell.text, anchor="end", color=cell.color)
                else:
                    self._text(left, at + 13, _cut(cell.text, room - 4, 11), color=cell.color)
            left += room
        if len(rows) > fit:
            self._text(x + width, y - 10, f"{fit} of {len(rows)} rows", color=_DIM, anchor="end")


def _last(series: Series) -> float:
    return series.values[max(series.values)]


def _cut(text: str, width: float, size: int) -> str:
    most = max(int(width / (_LETTER * size / 11)), 3)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _ticks(low: float, high: float) -> list[float]:
    """Return at most five round values from `low` to `high`."""
    power = 10 ** math.floor(math.log10(high - low))
    step = next(power * size for size in (0.2, 0.25, 0.5, 1, 2) if (high - low) / (power * size) < 5)
    return [low + step * number for number in range(int((high - low) / step + 1e-9) + 1)]


def _stretches(values: Mapping[float, float], step: float) -> Iterator[list[tuple[float, float]]]:
    """Yield the values in parts without gaps."""
    stretch: list[tuple[float, float]] = []
    for when in sorted(values):
        if stretch and when - stretch[-1][0] > step:
            yield stretch
            stretch = []
        stretch.append((when, values[when]))
    if stretch:
        yield stretch


def _equal(values: Mapping[float, float], step: float) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield the first and last point of each part with equal values."""
    for stretch in _stretches(values, step):
        first = last = stretch[0]
        for one in stretch[1:]:
            if one[1] != first[1]:
                yield first, last
                first = one
            last = one
        yield first, last


def _steps(points: Sequence[tuple[int, int]]) -> str:
    """Return an SVG path that stays at a value until the next one (`stepAfter`)."""
    (x, y), *rest = points
    path = f"M{x} {y}"
    for at, value in rest:
        if value != y:
            path += f"H{at}V{value}"
            y = value
        x = at
    return f"{path}H{x}"


def _one_job(server: HistoryServer) -> str:
    """Return the id of the job with the most device-hours."""
    found = server.range('count by (job_id) (trainfleet_device_power_watts{provider=~".*pai.*"})')
    return max(found, key=lambda series: sum(series.values.values())).labels["job_id"]


def main() -> int:
    """Draw every dashboard."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rules = sorted((DEPLOY / "prometheus" / "rules").glob("*.yaml"))
        with serving_history(record_history(folder), rules, folder) as server:
            job = _one_job(server)
            for board in boards():
                path = path_of(board)
                path.write_text(Picture(server, board, {"job_id": job}).drawn(), encoding="utf-8")
                print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
