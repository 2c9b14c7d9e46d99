"""A simulated week of the whole daemon with the simulated clouds, and a check that nothing leaks.

`python -m tests.soak` (`make soak`) runs seven days of churn, faults, reloads, rotations and scrapes on the stepped
clock. It measures tasks, files, pages and memory at the end of each day. test_soak.py runs some hours of it.
"""
