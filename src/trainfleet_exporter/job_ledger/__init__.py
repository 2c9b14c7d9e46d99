"""The ledger of ended jobs: its lines, its file, and the report on that file."""

from trainfleet_exporter.job_ledger.file import LedgerFile, check_writable
from trainfleet_exporter.job_ledger.line import ended_job
from trainfleet_exporter.job_ledger.use import UseWatch

__all__ = ["LedgerFile", "UseWatch", "check_writable", "ended_job"]
