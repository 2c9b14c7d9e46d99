"""What clouds have in common: the life of jobs, complete lists, collectors, and readings of usage.

Functions and small classes that a cloud calls. Nothing here calls a cloud.

    answer ──lists──► rows ──a cloud's translation──► Job ──JobTracker──► live, ended, missing ──Workspaces──► objects
    points ──NewestReadings──► Column ──publish_fresh──► objects
"""
