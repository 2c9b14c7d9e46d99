"""Backfill: what the clouds still know of the past, as files that `promtool tsdb create-blocks-from` takes.

command ─► Work ─► a platform's History ─► transport ─► the cloud
            │ units, each done whole or not at all
            ▼
          Spool (SQLite) ─► a day's file, once all of the day is there
"""
