"""Ports for processes: see trainfleet_exporter.testing.ports."""

from trainfleet_exporter.testing.ports import held_port

__all__ = ["held_port"]
