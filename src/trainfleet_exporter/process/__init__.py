"""The process and its system: signals, logs, redaction, systemd, the health check, threads, resource limits."""
