"""Temporary keys of the agency that a cloud server has, as the server's metadata service hands them out.

Asked at a fixed address on the server itself, so never through a proxy; where nothing is there, it must not take long
to find out.

https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from trainfleet_exporter.errors import AccessDenied, CloudError, RequestRefused
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys
from trainfleet_exporter.providers.huawei_modelarts.dialect import OpenDialect
from trainfleet_exporter.providers.huawei_modelarts.sources import RenewedCredential
from trainfleet_exporter.providers.huawei_modelarts.temporary import KEYS_MARGIN, leased_keys
from trainfleet_exporter.providers.lease import Lease, Leased, failure_of_all
from trainfleet_exporter.quantities import mapping
from trainfleet_exporter.transport import Call, HttpAnswer, TextForm, Transport

API = "metadata"
ORIGIN = "ECS metadata"
CONNECT_SECONDS, ALL_SECONDS = 1.0, 3.0
_TOKEN, _KEY = "GetMetadataToken", "GetSecurityKey"
_SESSION_SECONDS = "21600"  # the longest there is
_WITHOUT_SESSIONS = (404, 405, 503)
_NAMES = ("access", "secret", "securitytoken", "expires_at")
_A_TOKEN = TextForm("a token", re.compile(r"[!-~]{1,4096}"))


class _SessionDialect(OpenDialect):
    """Where sessions are not served, 503 is an answer like 404, and asking again would only take time."""

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        error = super().judge(answer)
        if answer.status in _WITHOUT_SESSIONS:
            return RequestRefused("sessions are not served", status=answer.status)
        return error


class Metadata:
    """The metadata service at `base_url`, reached by a transport of its own that uses no proxy."""

    def __init__(self, transport: Transport, base_url: str) -> None:
        self._transport = transport
        self._base_url = base_url

    async def fetch(self, deadline: float) -> Leased[AccessKeys]:
        """The server's keys, in three seconds at most (or by `deadline`, loop time). Raises CloudError."""
        deadline = min(deadline, asyncio.get_running_loop().time() + ALL_SECONDS)
        session = await self._session(deadline)
        dialect = OpenDialect(API, {"X-Metadata-Token": session} if session else {})
        call = Call(operation=_KEY, path="/openstack/latest/securitykey")
        try:
            answer = await self._call(call, dialect, deadline)
        except RequestRefused as error:
            if error.status != 404:
                raise
            raise AccessDenied("this server has no agency", operation=_KEY, status=404) from None
        told = mapping(answer, "credential") if isinstance(answer, dict) else {}
        return leased_keys(told, _NAMES, operation=_KEY)

    async def _session(self, deadline: float) -> str:
        """The token of a session; empty where the service knows none, and wants none."""
        call = Call(operation=_TOKEN, path="/meta-data/latest/api/token", method="PUT", text=_A_TOKEN)
        dialect = _SessionDialect(API, {"X-Metadata-Token-Ttl-Seconds": _SESSION_SECONDS})
        try:
            answer = await self._call(call, dialect, deadline)
        except RequestRefused as error:
            if error.status not in _WITHOUT_SESSIONS:
                raise
            return ""
        return str(answer)

    async def _call(self, call: Call, dialect: OpenDialect, deadline: float) -> object:
        # A client is a light thing: limits, breakers and connections belong to the transport.
        client = self._transport.client(self._base_url, dialect)
        answer: object = await client.call(call, deadline=deadline)
        return answer


def machine_keys(provider: str, metadata: Metadata, *, tried: Sequence[str] = ()) -> RenewedCredential[AccessKeys]:
    """Keys of the server's agency. `tried` says why the links of the chain before this one had nothing."""
    answered = False

    async def fetch(deadline: float) -> Leased[AccessKeys]:
        nonlocal answered
        try:
            leased = await metadata.fetch(deadline)
        except CloudError as error:
            if answered or not tried:
                raise
            links = "; ".join((*tried, f"{ORIGIN}: {error.message}"))
            raise failure_of_all([error], f"no credentials are configured, and none were found: {links}") from error
        answered = True
        return leased

    return RenewedCredential(ORIGIN, Lease(f"{provider}: temporary keys of {ORIGIN}", fetch, margin=KEYS_MARGIN))
