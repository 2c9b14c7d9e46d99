"""Polling: when collectors run, how their parts are kept and replaced, and what the exporter reports about them."""

from trainfleet_exporter.polling.collector import (
    BulkCollector,
    Collector,
    FairQueue,
    PerObjectCollector,
)
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.polling.poll import Part, Poll
from trainfleet_exporter.polling.runner import Runner
from trainfleet_exporter.polling.schedule import Schedule
from trainfleet_exporter.polling.topic import Topic

__all__ = [
    "BulkCollector",
    "Collector",
    "FairQueue",
    "Part",
    "PartStore",
    "PerObjectCollector",
    "Poll",
    "Runner",
    "Schedule",
    "Topic",
]
