"""The config file: strict, with all errors at once, and with secrets whose repr and str never contain the value."""

from trainfleet_exporter.config.load import load_config as load_config
from trainfleet_exporter.config.load import redacted as redacted
from trainfleet_exporter.config.schema import AccountKey as AccountKey
from trainfleet_exporter.config.schema import Collector as Collector
from trainfleet_exporter.config.schema import Config as Config
from trainfleet_exporter.config.schema import Global as Global
from trainfleet_exporter.config.schema import Http as Http
from trainfleet_exporter.config.schema import JobFilter as JobFilter
from trainfleet_exporter.config.schema import JobsScope as JobsScope
from trainfleet_exporter.config.schema import Limits as Limits
from trainfleet_exporter.config.schema import Metrics as Metrics
from trainfleet_exporter.config.schema import ProviderConfig as ProviderConfig
from trainfleet_exporter.config.schema import Section as Section
from trainfleet_exporter.config.secrets import Secret as Secret
from trainfleet_exporter.config.source import Source as Source
