"""From model objects to the bytes on /metrics: the table of families, rendering, the board, the formats."""

from trainfleet_exporter.exposition.board import Board
from trainfleet_exporter.exposition.body import body
from trainfleet_exporter.exposition.changes import Basis
from trainfleet_exporter.exposition.formats import Format
from trainfleet_exporter.exposition.negotiation import accepts_gzip, choose
from trainfleet_exporter.exposition.render import Renderer, RenderSettings, Update
from trainfleet_exporter.exposition.snapshot import Snapshot

__all__ = [
    "Basis",
    "Board",
    "Format",
    "RenderSettings",
    "Renderer",
    "Snapshot",
    "Update",
    "accepts_gzip",
    "body",
    "choose",
]
