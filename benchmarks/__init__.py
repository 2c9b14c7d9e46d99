"""Benchmarks: `make bench`. They compare side by side in one run, and nothing here passes or fails."""
