"""Benchmarks: `make bench`. They compare programs side by side in one run. They do not pass or fail."""
