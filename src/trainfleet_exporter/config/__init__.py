"""The config file: strict, with all errors at once, and with secrets whose repr and str never contain the value."""

from trainfleet_exporter.config.load import load_config, redacted
from trainfleet_exporter.config.schema import (
    AccountKey,
    Collector,
    Config,
    Global,
    Http,
    JobFilter,
    JobsScope,
    Limits,
    Metrics,
    ProviderConfig,
    Section,
)
from trainfleet_exporter.config.secrets import Secret

__all__ = [
    "AccountKey",
    "Collector",
    "Config",
    "Global",
    "Http",
    "JobFilter",
    "JobsScope",
    "Limits",
    "Metrics",
    "ProviderConfig",
    "Secret",
    "Section",
    "load_config",
    "redacted",
]
