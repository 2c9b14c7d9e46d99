"""Nodes of pools (PaiStudio ListNodes, verbose): one call a poll for each quota and each further 100 of its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.alibaba_pai import translate_pools as translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import PaiShared


class NodesCollector(PartsCollector):
    """A part for each quota; a node of a child quota is one of its parent, too."""

    def __init__(self, shared: PaiShared, interval: float) -> None:
        super().__init__("nodes", interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The quotas that this shard asks about."""
        return await self._shared.own_pools()

    async def read(self, part: Part) -> None:
        """List the nodes of one quota."""
        listing = await self._shared.client.list_nodes(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        found = [translate.node(row, part.key) for row in listing.rows.values()]
        del listing  # before publishing, during which other lists are read
        await part.publish([node for node in found if node is not None])
