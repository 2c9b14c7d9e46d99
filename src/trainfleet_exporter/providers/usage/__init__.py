"""Usage of jobs, pods, devices and pools, of every cloud: one engine for bulk readings, live and past.

    a cloud's source ──batches (keys, values, times)──► Newest ──► columns ──► parts of the page
                     ──readings of one job or pool────► Sheet  ──┘
                     ──dated readings of a range──────► Past   ──► tracks ──► backfill (cut into calls by `past`)

`families.usage` has what families there are, `entities` what readings are of, `arbitration` which of two sources serves
a job. Nothing here names a cloud.
"""
