"""GetJob's answers, which are not even decoded where they say the same as the last one about the job.

Two answers have the same mark if they differ in nothing but how long the job has been running and the ids of their
requests: in the digits behind names of "Duration", and the texts behind names of "RequestId". Of neither is there
anything in what pods are made of (translate.pods).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from trainfleet_exporter.transport.body import decode_json

# A quotation mark within a text has a backslash before it: so what looks like a name with its value is one, if
# perhaps the end of a longer name, and with other digits or letters in its value the rest of the answer stays the same.
_DURATION = re.compile(rb'"Duration": ?(?:0|[1-9][0-9]{0,14})')
_REQUEST_ID = re.compile(rb'"RequestId": ?"([0-9A-Za-z-]{0,64})"')
_JUDGED = ("Code", "code", "Success", "Message", "message", "requestId")
"""What the verdict on an answer is told by beside its status (dialect.judge), and is in none about a job."""
_DIGEST = 16
"""Bytes; two different answers about one job are never met with the same."""


class Detail:
    """The answer to one call about a job. `known` is the mark of an answer that need not be decoded again."""

    def __init__(self, job_id: str, known: bytes = b"") -> None:
        self.mark = b""
        """What an answer that says the same has as well; empty where that cannot be told."""
        self.is_known = False
        """Whether the answer has the mark that is known; then its payload is its ids alone."""
        self._job_id = job_id
        self._known = known
        self._body = b""

    async def decode(self, body: bytes) -> Any:
        """The payload of an answer (Call.decode)."""
        request_ids = _REQUEST_ID.findall(body)
        plain = _REQUEST_ID.sub(b'"RequestId":""', _DURATION.sub(b'"Duration":0', body))
        self.mark = hashlib.blake2b(plain, digest_size=_DIGEST).digest()
        self.is_known = self.mark == self._known
        if self.is_known:
            self._body = body
            told = {"RequestId": request_ids[0].decode()} if request_ids else {}  # there is one at most: see _is_plain
            return {"JobId": self._job_id, **told}
        payload = decode_json(body)
        if not isinstance(payload, dict) or not _is_plain(payload, request_ids):
            self.mark = b""
        return payload

    def row(self) -> dict[str, Any]:
        """A known answer decoded after all."""
        row: dict[str, Any] = decode_json(self._body)  # as another of its mark was decoded
        return row


def _is_plain(payload: dict[str, Any], request_ids: list[bytes]) -> bool:
    """Whether the verdict on an answer of the same mark can be told by its status and its one request id."""
    told = [payload["RequestId"]] if "RequestId" in payload else []
    return [request_id.decode() for request_id in request_ids] == told and not any(key in payload for key in _JUDGED)
