"""Polling: when collectors run, what happens to the parts of their answers, and what is told about it."""

from trainfleet_exporter.polling.collector import Collector, Rolling, Sweep
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.polling.poll import Part, Poll
from trainfleet_exporter.polling.runner import Runner
from trainfleet_exporter.polling.schedule import Schedule

__all__ = ["Collector", "Part", "PartStore", "Poll", "Rolling", "Runner", "Schedule", "Sweep"]
