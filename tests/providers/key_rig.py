"""Finds keys with answers of a function in the place of a network, and says who was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from tests.support.clock import run_stepped
from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.providers.key_search import KeyHttp, NoHttp, without_calls
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, Call, CallLimits, Dialect, HttpSettings, Transport

T = TypeVar("T")
Answer = Callable[[httpx.Request], httpx.Response]


class MockHttp(KeyHttp):
    """The calls of a search: each API is at a host with the name of its label."""

    def __init__(self, answer: Answer) -> None:
        self.calls: list[str] = []
        account = Account("test", CallLimits(requests_per_second=1000))
        context = BuildContext(settings=Global(), account=account, observe=lambda attempt: None)
        send, http = httpx.MockTransport(answer), HttpSettings(trust_env=False)
        self._mock = Transport(account=account, http=http, observe=context.observe, send=send)
        super().__init__(self._mock, context, lambda api: f"http://{api}.test", {})

    async def call(self, call: Call, into: type[T], dialect: Dialect, url: str = "") -> T:
        """The answer."""
        self.calls.append(call.operation)
        client = self._mock.client(url or f"http://{dialect.api}.test", dialect)
        return await client.call(call, into, deadline=asyncio.get_running_loop().time() + 20)


@dataclass
class Found:
    """Keys, or the text of the refusal; the calls; and the source that is named before any call."""

    keys: Keys | None = None
    refusal: str = ""
    calls: list[str] = field(default_factory=list)
    at_start: str = ""

    @property
    def origin(self) -> str:
        return "" if self.keys is None else self.keys.origin


def find(load: Any, section: Any, environ: Mapping[str, str], answer: Answer, **more: Any) -> Found:
    """Find keys in stepped time."""
    found = Found()

    async def main() -> None:
        http = MockHttp(answer)
        try:
            known = without_calls(load(section, environ, NoHttp(), **more))
            found.at_start = known if isinstance(known, str) else known.origin
            found.keys = await load(section, environ, http, **more)
        except CloudError as error:
            found.refusal = str(error)
        found.calls = http.calls

    run_stepped(main)
    return found
