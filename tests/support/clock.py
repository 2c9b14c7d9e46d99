"""Stepped time, which providers' own tests use as well: see trainfleet_conformance.clock."""

from trainfleet_conformance.clock import START, SteppedLoop, run_stepped

__all__ = ["START", "SteppedLoop", "run_stepped"]
