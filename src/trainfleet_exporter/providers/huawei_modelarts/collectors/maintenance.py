"""Announced work on nodes, off by default: one call a workspace for each 100 events, ended ones included."""

from __future__ import annotations

from collections.abc import Sequence

from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.collectors import PerWorkspaceCollector
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.translate_pools import maintenance


class MaintenanceCollector(PerWorkspaceCollector[ModelArtsShared]):
    """A part for each workspace. An event that two of them list is the first one's."""

    def __init__(self, shared: ModelArtsShared, interval: float) -> None:
        super().__init__("maintenance", shared, interval)
        self._events: dict[str, frozenset[str]] = {}
        """By workspace, the ids of the events that its part shows."""

    async def keys(self) -> Sequence[str]:
        """The ids of the workspaces."""
        workspace_ids = await super().keys()
        for gone in self._events.keys() - set(workspace_ids):
            del self._events[gone]
        return workspace_ids

    def expired(self, key: str) -> None:
        """Let other workspaces show this one's events."""
        self._events.pop(key, None)

    async def read(self, part: Part) -> None:
        """List the events of one workspace."""
        listing = await self._shared.client.list_scheduled_events(part.key, deadline=part.deadline)
        part.dropped("malformed", listing.malformed)
        found = {event_id: work for event_id, row in listing.rows.items() if (work := maintenance(row)) is not None}
        del listing  # before publishing, during which other lists are read
        elsewhere = {one for key, ids in self._events.items() if key != part.key for one in ids}
        for event_id in found.keys() & elsewhere:
            del found[event_id]
            part.dropped("duplicate")
        self._events[part.key] = frozenset(found)
        await part.publish(list(found.values()))
