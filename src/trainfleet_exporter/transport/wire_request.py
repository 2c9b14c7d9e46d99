"""A request as it goes on the wire, which is an httpx.Request for whoever looks at it as one.

httpx parses the address and writes the headers down three times before a request can be sent, which takes as long as a
third of sending it. Only what stands in for the network (tests, other transports) looks at what comes of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import httpx


class WireRequest(httpx.Request):
    """Method, origin (`scheme://host[:port]`), target, headers and body as they are to be sent; the rest when needed.

    httpx.LocalProtocolError for what cannot be written as HTTP: characters beyond ASCII, in a key or a path.
    """

    def __init__(
        self,
        method: str,
        origin: str,
        target: str,
        *,
        headers: list[tuple[str, str]],
        body: bytes = b"",
        extensions: Mapping[str, Any],
    ) -> None:
        if not (target.isascii() and target.isprintable() and all(f"{n}{v}".isascii() for n, v in headers)):
            raise httpx.LocalProtocolError("the request cannot be written as HTTP")
        self.method = method.upper()
        self.extensions = {**extensions, "target": target.encode("ascii")}
        self.origin = origin
        self.address = origin + target
        self.lines = headers
        self.body = body

    @classmethod
    async def of(cls, request: httpx.Request) -> Self:
        """Any request in this form; `target` in its extensions is what is sent in its address' stead."""
        if isinstance(request, cls):
            return request
        return cls(
            request.method,
            f"{request.url.scheme}://{request.url.netloc.decode('ascii')}",
            request.extensions.get("target", request.url.raw_path).decode("ascii"),
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
            body=await request.aread(),
            extensions=request.extensions,
        )

    def __getattr__(self, name: str) -> Any:
        # Asked for what is not there: all that httpx makes of a request, until it has been made.
        if "url" in self.__dict__:
            raise AttributeError(name)
        super().__init__(
            self.method, self.address, headers=self.lines, content=self.body or None, extensions=self.extensions
        )
        return getattr(self, name)
