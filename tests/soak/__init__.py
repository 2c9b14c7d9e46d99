"""A compressed week of the whole daemon with both simulated clouds, and what of it grows.

`python -m tests.soak` (`make soak`) lets seven days of churn, faults, reloads, rotations and scrapes pass on the
stepped clock, and looks at tasks, files, pages and memory at the end of each day; test_soak.py runs some hours of it.
"""
