"""Clients that a function answers, in the place of a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httpx

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.providers.credentials import (
    CredentialClients,
    CredentialTable,
    Issued,
    MetadataService,
    Source,
    open_credential,
)
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, ApiClient, Attempt, CallLimits, Dialect, HttpSettings, Transport

Answer = Callable[[httpx.Request], httpx.Response]


class MockClients(CredentialClients):
    """The clients of provider `p`; each API is at a host with the name of its label, such as `sts.test`."""

    def __init__(self, answer: Answer) -> None:
        self.attempts: list[Attempt] = []
        transport = Transport(
            account=Account("test", CallLimits(requests_per_second=1000)),
            http=HttpSettings(trust_env=False),
            observe=self.attempts.append,
            send=httpx.MockTransport(answer),
        )
        super().__init__("p", transport, cast("BuildContext", None), lambda api: f"http://{api}.test")

    def near(self, service: MetadataService, base_url: str = "") -> Callable[[Dialect], ApiClient]:
        """Answered as well."""
        return self.far(base_url or "http://metadata.test")


def ask(source: Source, cloud: CredentialTable[Any], answer: Answer) -> Issued[Any] | str:
    """The credential that a source has with these answers, or the error in words."""

    async def main() -> Issued[Any] | str:
        credential = open_credential(source, cloud, MockClients(answer))
        try:
            await credential.prepare(asyncio.get_running_loop().time() + 20)
        except CloudError as error:
            return str(error)
        assert credential.expires is not None
        return Issued(credential.current(), credential.expires)

    return run_stepped(main)
