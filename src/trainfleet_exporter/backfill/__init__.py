"""Backfill: the past days that a cloud still has, as files for `promtool tsdb create-blocks-from`.

command ─► Work ─► a platform's History ─► transport ─► the cloud
            │ units, each done completely or not at all
            ▼
          Spool (SQLite) ─► a day's file, when all units of the day are done
"""
