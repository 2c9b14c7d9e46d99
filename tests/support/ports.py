"""Ports for processes: see trainfleet_conformance.ports."""

from trainfleet_conformance.ports import held_port

__all__ = ["held_port"]
