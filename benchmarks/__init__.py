"""Measurements of times, calls, rules and detection, and comparisons of two checkouts: see CONTRIBUTING.md."""
