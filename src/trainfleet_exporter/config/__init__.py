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
from trainfleet_exporter.config.source import Source, load_yaml

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
    "Source",
    "load_config",
    "load_yaml",
    "redacted",
]
