"""Stepped time, which providers' own tests use as well: see trainfleet_exporter.testing.clock."""

from trainfleet_exporter.testing.clock import START, SteppedLoop, run_stepped

__all__ = ["START", "SteppedLoop", "run_stepped"]
