"""From model objects to the bytes on /metrics: rendering, the page store, the formats."""

from trainfleet_exporter.exposition.blocks import Block, Body, MetricsPage, chunks
from trainfleet_exporter.exposition.formats import Format, accepts_gzip, choose
from trainfleet_exporter.exposition.render import Rendered, Renderer, RenderSettings
from trainfleet_exporter.exposition.store import PageStore

__all__ = [
    "Block",
    "Body",
    "Format",
    "MetricsPage",
    "PageStore",
    "RenderSettings",
    "Rendered",
    "Renderer",
    "accepts_gzip",
    "choose",
    "chunks",
]
