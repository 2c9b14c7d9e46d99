"""A request that is an httpx.Request only for whoever looks at it as one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from trainfleet_exporter.transport.wire_request import WireRequest

ORIGIN = "http://api.test:8080"
HEADERS = [("Host", "api.test:8080"), ("Authorization", "signature"), ("accept", "application/json")]


def _request(target: str = "/jobs?a=%2F~", **settings: Any) -> WireRequest:
    return WireRequest("post", ORIGIN, target, **{"headers": HEADERS, "extensions": {"trace": None}, **settings})


@pytest.mark.parametrize("body", [b"", b'{"a":1}'])
def test_who_looks_sees_what_httpx_would_have_made(body: bytes) -> None:
    made = httpx.Request("POST", f"{ORIGIN}/jobs?a=%2F~", headers=HEADERS, content=body or None)
    request = _request(body=body)
    assert "url" not in vars(request)
    assert request.headers.raw == made.headers.raw
    assert (request.method, request.url) == (made.method, made.url)
    assert request.content == asyncio.run(request.aread()) == body
    assert repr(request) == repr(made).replace("Request", "WireRequest")


def test_what_httpx_does_not_make_is_not_there() -> None:
    request = _request()
    with pytest.raises(AttributeError):
        _ = request.no_such_thing
    assert request.url.path == "/jobs"


def test_any_request_takes_this_form() -> None:
    plain = httpx.Request(
        "POST", f"{ORIGIN}/seen?a=1", headers=HEADERS, content=b"body", extensions={"target": b"/sent?a=%7E"}
    )
    request = asyncio.run(WireRequest.of(plain))
    assert (request.origin, request.address, request.body) == (ORIGIN, f"{ORIGIN}/sent?a=%7E", b"body")
    assert request.lines == [*HEADERS, ("Content-Length", "4")]
    assert request.extensions["target"] == b"/sent?a=%7E"
    assert asyncio.run(WireRequest.of(request)) is request


@pytest.mark.parametrize("target", ["/ü", "/a\r\nX: y", "/a\tb", "/a\x7f"])
def test_a_target_that_cannot_be_written(target: str) -> None:
    with pytest.raises(httpx.LocalProtocolError) as caught:
        _request(target)
    assert str(caught.value) == "the request cannot be written as HTTP"


@pytest.mark.parametrize("header", [("x-key", "ü"), ("ü", "x")])
def test_a_header_that_cannot_be_written(header: tuple[str, str]) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        _request(headers=[*HEADERS, header])
