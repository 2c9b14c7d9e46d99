"""From a provider's config to its way out to the cloud."""

from __future__ import annotations

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import HttpSettings, Transport


def open_transport(config: ProviderConfig, context: BuildContext) -> Transport:
    """The transport that all APIs of one provider share: its account's limits, the HTTP settings of its config."""
    return Transport(
        account=context.account,
        http=HttpSettings(
            proxy_url=None if config.http.proxy_url is None else config.http.proxy_url.reveal(),
            ca_file=config.http.ca_file,
            connect_timeout=config.http.connect_timeout,
            request_timeout=config.http.request_timeout,
        ),
        observe=context.observe,
    )


def open_direct_transport(context: BuildContext) -> Transport:
    """A way to what is near (a metadata service), which no proxy could reach."""
    http = HttpSettings(connect_timeout=1.0, request_timeout=3.0, trust_env=False)
    return Transport(account=context.account, http=http, observe=context.observe)
