"""Addresses in the config: what an endpoint and a proxy may look like, and how to show them without their user."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from trainfleet_exporter.config.secrets import ProxyUrl

_ALLOWED = "http:// or https:// with a host"
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


def parse_endpoint(text: str) -> str:
    """`scheme://host[:port]` of an http(s) address without anything else; ValueError if it is not one."""
    try:
        parts = _split(text)
    except ValueError:
        parts = None
    if parts is None or "@" in parts.netloc:
        raise ValueError(f"allowed: {_ALLOWED} and perhaps a port, without user, path or query")
    return f"{parts.scheme}://{parts.netloc}"


def parse_proxy(given: object) -> ProxyUrl:
    """A proxy's http(s) address with or without a user; ValueError if it is not one."""
    if isinstance(given, ProxyUrl):
        return given
    try:
        _split(given if isinstance(given, str) else "")
    except ValueError:
        raise ValueError(f"allowed: {_ALLOWED} and perhaps a user and a port, without path or query") from None
    return ProxyUrl(str(given))


def is_loopback(url: str) -> bool:
    """Return whether the address leads to this machine itself."""
    return urlsplit(url).hostname == "localhost" or _ip_address(url).is_loopback


def is_link_local(url: str) -> bool:
    """Return whether the address leads to this machine's own network only, as those of metadata services do."""
    return _ip_address(url).is_link_local


def _ip_address(url: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return ipaddress.IPv4Address(0)  # a name, which is neither loopback nor link-local


def _split(text: str) -> SplitResult:
    # urlsplit drops line breaks and tabs without a word, so they are looked for before it.
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("holds characters that an address cannot have")
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or parts.path not in {"", "/"} or "?" in text or "#" in text:
        raise ValueError("not only scheme, host and port")
    host = parts.hostname or ""
    if parts.port == 0:  # .port itself raises ValueError for what is no port
        raise ValueError("port 0")
    if "[" in parts.netloc:
        ipaddress.IPv6Address(host)
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError("no host")
    if parts.netloc.endswith(":"):
        raise ValueError("a colon without a port")
    return parts
