"""One client's connection: HTTP/1.1 as uvicorn speaks it, and a way for an answer to end its connection at once."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from trainfleet_exporter.slices import answer_comes

_EXTENSION = "trainfleet_exporter.connection"
"""Our name among the extensions of an ASGI scope."""


class Connection(HttpToolsProtocol):
    """Tells each request's application how to abort its connection (see `abort_of`), and long work of its coming."""

    def on_headers_complete(self) -> None:
        """The request is known, and its handler about to begin."""
        super().on_headers_complete()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.scope is self.scope:  # else it was no request that is answered
            abort = partial(_abort, weakref.ref(cycle), self.transport)  # weak: the cycle has the scope
            self.scope["extensions"] = {_EXTENSION: {"abort": abort}}
            answer_comes()


def _abort(answer: weakref.ref[RequestResponseCycle], transport: asyncio.Transport) -> None:
    cycle = answer()
    if cycle is not None:
        # Else it learns of the end too late, or never if others are pipelined: a handler that returns amid its answer
        # is a fault, and logged, where the connection is thought to be in order.
        cycle.disconnected = True
    transport.abort()


def abort_of(scope: Any) -> Callable[[], None]:
    """What ends the connection of an ASGI scope at once: what it has not sent yet is thrown away, and the client sees a
    broken connection instead of a short answer. Where the server knows no such thing, it does nothing: a handler that
    returns amid its answer has its connection closed anyway."""
    given = scope.get("extensions", {}).get(_EXTENSION)
    abort: Callable[[], None] = given["abort"] if given else _nothing
    return abort


def _nothing() -> None:
    pass
