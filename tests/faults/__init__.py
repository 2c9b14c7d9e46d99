"""Every operation that the exporter calls, under every fault that a cloud or the way to it can have.

`python -m tests.faults` (`make faults`) writes docs/evidence/faults.md; test_matrix.py compares the document with it.
"""
