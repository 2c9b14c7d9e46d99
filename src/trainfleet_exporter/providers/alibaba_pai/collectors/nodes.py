"""Nodes of pools (PaiStudio ListNodes, verbose): one call a poll for each quota and each further 100 of its nodes."""

from __future__ import annotations

from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.sweeps import each_sweep


def nodes(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector. A part is a quota; a node of a child is one of its parent, too."""

    async def read(part: Part) -> None:
        listing = await shared.api.list_nodes(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        found = [translate.node(row, part.key) for row in listing.rows.values()]
        del listing  # before publishing, during which other lists are read
        await part.publish([node for node in found if node is not None])

    return each_sweep("nodes", interval=interval, at_once=at_once, keys=shared.own_quotas, read=read)
