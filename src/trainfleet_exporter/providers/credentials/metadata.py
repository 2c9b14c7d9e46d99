"""Keys of a machine's role, from its metadata service: a session token first, then the role, then its keys.

The service answers plain HTTP at an address that every machine of a cloud has for itself. An old service has no session
tokens, and is asked without one. The service refreshes the keys itself.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused
from trainfleet_exporter.providers.credentials.credential import Issued, Keys
from trainfleet_exporter.providers.credentials.dialects import Judge, OpenDialect
from trainfleet_exporter.providers.credentials.sources import MachineRole
from trainfleet_exporter.transport import ApiClient, Call, Dialect, TextForm

API = "metadata"
_SESSION_SECONDS = "21600"  # the longest life of a session token
_A_TOKEN = TextForm("a token", re.compile(r"[!-~]{1,4096}"))
_A_ROLE = TextForm("the name of a role", re.compile(r"[A-Za-z0-9._+=,@-]{1,64}"))

Connect: TypeAlias = Callable[[Dialect], ApiClient]
Operation: TypeAlias = tuple[str, str]
"""Its name, and its path."""
AskKeys: TypeAlias = Callable[[ApiClient, Call, float], Awaitable[Issued[Keys]]]
"""Makes a call that returns keys, by a deadline (loop time). Raises CloudError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataService:
    """How the metadata service of a cloud is asked."""

    session: Operation
    """A PUT that returns the token of a session."""
    seconds_header: str
    """Says how long a session is to last."""
    session_header: str
    """Carries the token of a session."""
    judge_session: Judge
    """Judges the answer to `session`, and `judge` the others."""
    judge: Judge
    without_sessions: Collection[int]
    """The HTTP statuses of a service that has no sessions."""
    roles: Operation | None = None
    """Returns the name of the machine's role, if that is part of the path of `keys`."""
    keys: Operation
    ask: AskKeys
    no_role: Callable[[str], AccessDenied]
    """The error for a machine that does not have the role of that name, or none at all."""
    origin: str
    logged: str
    margin: float
    """How many seconds before they expire the keys are requested again."""
    connect_seconds: float = 1.0
    request_seconds: float = 5.0
    total_seconds: float = math.inf
    """The service is near, or it is not there at all: these timeouts are short."""


class Machine:
    """The metadata service, asked for one role. `role` is the name of the role, once it is known."""

    def __init__(self, service: MetadataService, connect: Connect, wanted: MachineRole) -> None:
        self._service = service
        self._connect = connect
        self._wanted = wanted
        self.role = wanted.name

    @property
    def origin(self) -> str:
        """The source of the keys, for users."""
        return f"{self._service.origin}, role {self.role}" if self.role else self._service.origin

    async def fetch(self, deadline: float) -> Issued[Keys]:
        """The keys that the machine has now, by `deadline` (loop time). Raises CloudError."""
        service = self._service
        deadline = min(deadline, asyncio.get_running_loop().time() + service.total_seconds)
        session = await self._open_session(deadline)
        token = (service.session_header, Secret(session)) if session else None
        client = self._connect(OpenDialect(API, service.judge, token=token))
        role = self._wanted.name
        if not role and service.roles is not None:
            operation, path = service.roles
            with self._no_role(operation):
                answer = await client.call(Call(operation=operation, path=path, text=_A_ROLE), deadline=deadline)
            role = str(answer)
        operation, path = service.keys
        with self._no_role(operation, role):
            keys = await service.ask(client, Call(operation=operation, path=path + quote(role, safe="")), deadline)
        self.role = role
        return keys

    async def _open_session(self, deadline: float) -> str:
        """The token of a session; empty if the service has no sessions, and may be asked without one."""
        service, (operation, path) = self._service, self._service.session
        headers = {service.seconds_header: _SESSION_SECONDS}
        client = self._connect(OpenDialect(API, service.judge_session, lambda call: headers))
        call = Call(operation=operation, path=path, method="PUT", text=_A_TOKEN)
        try:
            return str(await client.call(call, deadline=deadline))
        except CloudError as error:
            if error.status not in service.without_sessions:
                raise
            if self._wanted.needs_session:
                message = "the metadata service gives no tokens, and asking without one is disabled"
                raise AccessDenied(message, operation=operation, status=error.status) from None
            return ""

    @contextmanager
    def _no_role(self, operation: str, role: str = "") -> Iterator[None]:
        """Turn a 404 into the error of a machine without that role."""
        try:
            yield
        except (NotFound, RequestRefused) as error:
            if error.status != 404:
                raise
            denied = self._service.no_role(role)
            denied.operation = operation
            raise denied from None
