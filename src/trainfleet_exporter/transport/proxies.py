"""Chooses the proxy for a host, from the config or from the environment as curl does."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.request import getproxies_environment

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
    host, port = (url.raw_host or "").lower().rstrip("."), url.port
    variables = getproxies_environment()
    exempt = variables.get("no", "").replace(",", " ").split()
    if _is_loopback(host) or any(_matches(entry.lower(), host, port) for entry in exempt):
        return None
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


_EXEMPT = re.compile(r"\[(?P<bracketed>[^\]]*)\](?::(?P<port6>\d+))?|(?P<name>[^:]*)(?::(?P<port>\d+))?|(?P<bare>.*)")


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Return whether an entry of NO_PROXY names a host: `*`, an address, a network, or a domain with all below it, with
    or without a port."""
    found = _EXEMPT.fullmatch(entry)
    assert found is not None  # its last form is any text
    wanted_port = found["port6"] or found["port"]
    if wanted_port and int(wanted_port) != port:
        return False
    name = found["bracketed"] or found["name"] or found["bare"] or ""
    if name == "*":
        return True
    if (address := _address(host)) is None:
        domain = name.removeprefix("*").strip(".")
        return domain != "" and f".{host}".endswith(f".{domain}")
    with suppress(ValueError):
        return address in ipaddress.ip_network(name, strict=False)
    return False


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
