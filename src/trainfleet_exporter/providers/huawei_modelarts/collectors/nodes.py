"""Nodes of dedicated pools, off by default: one call for each 500 nodes of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Node
from trainfleet_exporter.polling import Part, PartsCollector
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import node


class NodesCollector(PartsCollector):
    """A part for each pool."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("nodes", interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The pools that this shard asks about."""
        return await self._shared.own_pools()

    async def read(self, part: Part) -> None:
        """List the nodes of one pool."""
        try:
            rows = await self._shared.client.list_nodes(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        found = _nodes(part, rows)
        del rows  # before publishing, during which other lists are read
        await part.publish(list(found.values()))


def _nodes(part: Part, rows: Sequence[payloads.Node | None]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for row in rows:
        one = None if row is None else node(part.key, row)
        if one is None:
            part.dropped("malformed")
        elif one.node_name in found:
            part.dropped("duplicate")
        else:
            found[one.node_name] = one
    return found
