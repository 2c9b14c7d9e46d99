"""Stepped time from trainfleet_conformance.clock, which tests of other providers use, too."""

from trainfleet_conformance.clock import START, SteppedLoop, run_stepped

__all__ = ["START", "SteppedLoop", "run_stepped"]
