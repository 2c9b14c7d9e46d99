"""The process and its system: signals, logs, redaction, systemd, the health check, threads, resource limits."""

import sys

import trainfleet_exporter


def version() -> str:
    """The line that `--version` prints."""
    return f"trainfleet-exporter {trainfleet_exporter.__version__} (Python {sys.version.partition(' ')[0]})"
