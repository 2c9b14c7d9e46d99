"""Errors that quote the request, as services return them for a wrong signature.

Every secret of the request is quoted unchanged, percent-encoded, in base64, and cut.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Iterator
from urllib.parse import quote

from starlette.responses import JSONResponse, PlainTextResponse, Response

from trainfleet_simulator.exchange import ApiError, ApiRequest, Cloud, Operation
from trainfleet_simulator.rows import read
from trainfleet_simulator.signatures import string_to_sign

_SIGNATURE = re.compile(r"Signature=(\w+)")
_KEPT = 400
_FILLER = 268
"""Characters before the first quote of a long error, so that a client that shows 300 characters cuts the quote."""
_DETAILS = "x" * 20_000
"""More than some clients read of an error."""


class QuotingErrors:
    """Creates errors that quote. `quoted` are the last requests that were quoted."""

    def __init__(self) -> None:
        self.quoted: deque[ApiRequest] = deque(maxlen=_KEPT)
        self._turn = 0

    def refuse(
        self, cloud: Cloud, request: ApiRequest, operation: Operation, request_id: str, *, at_length: bool
    ) -> Response:
        """Return a rejection with 400. With `at_length`, it has more than 16 KiB, and status 200 if the API has such
        rejections."""
        self.quoted.append(request)
        parts = list(_parts(request))
        first = self._turn % len(parts)  # clients show the start of a text
        self._turn += 1
        text = "; ".join((*parts[first:], *parts[:first]))
        usual = cloud.usual(400)
        message = f"{'y' * _FILLER}: {text}" if at_length else text
        response = cloud.refuse(ApiError(usual.status, usual.code, message), request, operation, request_id)
        if isinstance(response, PlainTextResponse) or not at_length:
            return response
        body = {"Details": _DETAILS, **read(response)}
        says_so = "Code" in body or body.get("status") == "error" or body.get("is_success") is False
        return JSONResponse(body, 200 if says_so else response.status_code)


def _parts(request: ApiRequest) -> Iterator[str]:
    authorization = request.headers.get("authorization", "")
    if signed := string_to_sign(request):
        yield f"the Authorization value {authorization} does not match"
        yield f"server string to sign is:{signed}"
        yield json.dumps({"StringToSign": signed, "Authorization": authorization})
    secrets = [value for name, value in request.headers.items() if "token" in name and "ttl" not in name]
    found = _SIGNATURE.search(authorization)
    for secret in (*secrets, *([found[1]] if found else [])):
        yield f"got {secret}"
        yield f"got {quote(secret, safe='')}"
        yield base64.b64encode(f"user:{secret}".encode()).decode()
        yield f"got {secret[: max(16, len(secret) // 2)]}..."
    body = request.body.decode("utf-8", "replace")  # a password or an ID token of an unsigned request
    yield f"the body {body} of {request.method} {request.path}"
    if body:
        yield quote(body, safe="")
        yield base64.b64encode(request.body).decode()
