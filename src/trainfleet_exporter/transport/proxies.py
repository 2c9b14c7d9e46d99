"""Which proxy leads to a host, by the settings or by the environment as curl reads it."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from urllib.request import getproxies_environment, proxy_bypass

import yarl

from trainfleet_exporter.transport.calls import HttpSettings


class UnusableProxy(Exception):
    """The proxy that is asked for is of a kind that this client does not speak. The text names no user or password."""


def proxy_for(url: yarl.URL, http: HttpSettings) -> yarl.URL | None:
    """The proxy for a target, or None for the direct way.

    `proxy_url` wins for every target. The environment's never applies to this machine itself: the simulated clouds of
    the demo run there. An unusable proxy raises, since going round it would go against what the operator asked for.
    """
    if http.proxy_url:
        return _usable(http.proxy_url)
    if not http.trust_env:
        return None
    host = url.raw_host or ""
    if _is_loopback(host) or proxy_bypass(f"[{host}]" if ":" in host else f"{host}:{url.port}"):
        return None
    variables = getproxies_environment()
    proxy = variables.get(url.scheme) or variables.get("all")
    return _usable(proxy) if proxy else None


def without_user(proxy: yarl.URL | None) -> tuple[yarl.URL | None, Mapping[str, str]]:
    """The proxy without its user, and the headers that authenticate to it.

    The client keeps the addresses of its proxies with its connections, where they could be printed.
    """
    if proxy is None or proxy.user is None:
        return proxy, {}
    user = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode("ascii")
    return proxy.with_user(None), {"Proxy-Authorization": f"Basic {user}"}


def proxy_passwords(http: HttpSettings) -> list[str]:
    """The passwords of the proxies that may lead somewhere: a proxy may quote them, too."""
    texts = [http.proxy_url] if http.proxy_url else list(getproxies_environment().values()) if http.trust_env else []
    found = []
    for text in texts:
        with suppress(UnusableProxy):
            found.append(_usable(text).password or "")
    return found


def _usable(text: str) -> yarl.URL:
    try:
        proxy = yarl.URL(text if "://" in text else f"http://{text}")
        usable = proxy.scheme in {"http", "https"} and bool(proxy.raw_host)
    except ValueError:
        usable = False
    if not usable:
        raise UnusableProxy("the proxy's address is not http or https")
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
