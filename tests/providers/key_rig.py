"""Finds keys with answers of a function in the place of a network: the calls, and the environments of a cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True)
class Env:
    """An environment; what is found there, or the words of the refusal; and the calls."""

    found: str = ""
    calls: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    refusal: tuple[str, ...] = ()
    project: str = ""


@dataclass(frozen=True)
class Chain:
    """How a cloud finds keys: environments, broken profiles, forms of the section with `files`, and good answers."""

    load: Any
    answer: Answer
    environments: Mapping[str, Env]
    broken: Mapping[str, Env]
    files: Mapping[str, str]
    sections: Mapping[str, tuple[Any, str, list[str]]]
    machine: Any
    """The section of the machine's role."""
    bad_answers: Mapping[str, tuple[Answer, str]]
    """Of its metadata service, and words of the refusal."""
    more: Mapping[str, Any] = field(default_factory=dict)

    def use(
        self, given: Env, home: Path, section: Any = None, answer: Answer | None = None, *, ahead: float = 0.0
    ) -> Found:
        """Find keys in stepped time in an environment. The cloud's clock is `ahead` by so many seconds."""
        (home / "token").write_text("planted-id-token")
        for name, text in given.files.items():
            (home / name).parent.mkdir(exist_ok=True)
            (home / name).write_text(text.replace("{home}", str(home)))
        environ = {name: value.replace("{home}", str(home)) for name, value in given.env.items()} | {"HOME": str(home)}
        found = Found()

        async def main() -> None:
            http = MockHttp(answer or self.answer)
            http.clock.ahead = ahead
            try:
                known = without_calls(self.load(section, environ, NoHttp(), **self.more))
                found.at_start = known if isinstance(known, str) else known.origin
                found.keys = await self.load(section, environ, http, **self.more)
            except CloudError as error:
                found.refusal = str(error)
            found.calls = http.calls

        run_stepped(main)
        return found
