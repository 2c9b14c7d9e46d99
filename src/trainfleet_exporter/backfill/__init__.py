"""Backfill: the past days that a cloud still has, as files for `promtool tsdb create-blocks-from`.

command ─► Work ─► a platform's Past ─► transport ─► the cloud
            │ lives ─► State, when all are found
            ▼ tracks and records
          DayParts ─► a day's file, when all calls of the day are done
"""
