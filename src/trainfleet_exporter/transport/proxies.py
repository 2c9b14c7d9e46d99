"""Chooses the proxy for a host, from the config or from the environment as curl does."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from urllib.request import getproxies_environment, proxy_bypass

import yarl

from trainfleet_exporter.transport.calls import HttpSettings


class UnusableProxy(Exception):
    """The client does not support this kind of proxy. The text names no user or password."""


def proxy_for(url: yarl.URL, http: HttpSettings) -> yarl.URL | None:
    """Return the proxy for a target, or None for a direct connection.

    `proxy_url` applies to every target. The environment's proxies never apply to loopback, where the simulated clouds
    of the demo run. An unusable proxy raises, because a direct connection would ignore the config.
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
    """Return the proxy without its user, and the headers that authenticate to it.

    The client keeps the addresses of its proxies with its connections, whose repr could show them.
    """
    if proxy is None or proxy.user is None:
        return proxy, {}
    user = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode("ascii")
    return proxy.with_user(None), {"Proxy-Authorization": f"Basic {user}"}


def proxy_passwords(http: HttpSettings) -> list[str]:
    """Return the passwords of all proxies in use, because a proxy may also quote them."""
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
