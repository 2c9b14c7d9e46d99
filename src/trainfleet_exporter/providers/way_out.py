"""From a provider's config to its way out to the cloud."""

from __future__ import annotations

from collections.abc import Callable

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.transport import Attempt, HttpSettings, Limits, Transport


def open_transport(config: ProviderConfig, observe: Callable[[Attempt], None]) -> Transport:
    """The transport that all APIs of one provider share, with the limits and HTTP settings of its config."""
    return Transport(
        limits=Limits(requests_per_second=config.limits.requests_per_second, concurrency=config.limits.concurrency),
        http=HttpSettings(
            proxy_url=config.http.proxy_url,
            ca_file=config.http.ca_file,
            connect_timeout=config.http.connect_timeout,
            request_timeout=config.http.request_timeout,
        ),
        observe=observe,
    )
