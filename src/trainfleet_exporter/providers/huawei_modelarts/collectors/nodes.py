"""Nodes of dedicated pools, off by default: one call for each 500 nodes of a pool."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.errors import NotFound
from trainfleet_exporter.model import Node
from trainfleet_exporter.polling import Part, Sweep
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import Shared
from trainfleet_exporter.providers.huawei_modelarts.pool_details import node
from trainfleet_exporter.providers.sweeps import each_sweep


def nodes(shared: Shared, *, interval: float, at_once: int) -> Sweep:
    """The collector: a part for each pool."""

    async def read(part: Part) -> None:
        try:
            rows = await shared.api.list_nodes(part.key, deadline=part.deadline)
        except NotFound as error:
            await part.not_found(error)
            return
        found = _nodes(part, rows)
        del rows  # before publishing, during which other lists are read
        await part.publish(list(found.values()))

    return each_sweep("nodes", interval=interval, at_once=at_once, keys=shared.own_pools, read=read)


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
