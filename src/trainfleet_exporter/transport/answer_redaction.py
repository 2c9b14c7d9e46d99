"""Redaction of credentials that a service quotes when it rejects a request: ids of keys, tokens, signatures.

A service knows only the secrets that requests have sent to it. `SentSecrets` keeps those that one provider sent
recently, in requests to all APIs: STS and the API behind it belong to the same cloud. A signature is valid for one
attempt, so the redaction searches only the response to that attempt for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import unquote

import httpx

from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.process.redaction import BEGINNING, LONGEST, SHORTEST, Forms, Redactor, remember
from trainfleet_exporter.transport.calls import HttpAnswer, SignedRequest

_SECRETS_KEPT = 24
"""Enough for some hours of temporary keys: each set is an id and a token."""
_ROOM = 64 * 1024
"""The most characters of one response that are searched, because the search blocks the event loop."""
_FIELD = 64
"""The least characters that a field counts as, so that the number of fields is also limited."""
_DEPTH = 6
"""The most levels of objects and lists that are searched."""
_PROOF = 24
"""A part of an Authorization value with more characters is not the name of a header."""
_SIGNATURE = re.compile(r"signature=([^&]+)", re.IGNORECASE)
_IN_AUTHORIZATION = re.compile(r"""[\s,;:="]+""")


class SentSecrets:
    """The secrets that one provider's requests sent lately; `always` are those of every request."""

    def __init__(self, always: Iterable[str] = ()) -> None:
        always = tuple(always)
        remember(*always)
        self._always = [Forms(text) for text in always if len(text) >= SHORTEST]
        self._secrets: dict[bytes, Forms] = {}
        """By a hash of the secret, so that no repr shows the secret."""

    def note(self, texts: Iterable[str]) -> None:
        """Add the secrets of a request."""
        for text in texts:
            if len(text) >= SHORTEST:
                remember(text)
                key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
                forms = self._secrets.pop(key, None)  # to be the last again
                self._secrets[key] = forms or Forms(text)
        while len(self._secrets) > _SECRETS_KEPT:
            del self._secrets[next(iter(self._secrets))]

    def redactor(self, signed: SignedRequest) -> AnswerRedactor:
        """Return the redaction for the response to a request. Make a new one for each response: it holds plain
        secrets."""
        values = [value for name, value in signed.headers.items() if name.lower() == "authorization"]
        return AnswerRedactor(
            [*signed.proofs, *_proofs(signed, values)], values, (*self._always, *self._secrets.values())
        )


class AnswerRedactor(Redactor):
    """Redacts secrets in a response and in the error made from it."""

    def redact_answer(self, answer: HttpAnswer) -> HttpAnswer:
        """Return the response without secrets, truncated to 64 KiB: its headers, its body, and its payload."""
        pairs = [(name, self.text(value)) for name, value in answer.headers.items()]
        body = self.text(answer.body[:LONGEST].decode("utf-8", "replace")).encode()
        payload = _Fields(self).copy(answer.payload, _DEPTH)
        return replace(answer, headers=httpx.Headers(pairs, encoding="utf-8"), body=body, payload=payload)

    def redact_error(self, error: CloudError) -> CloudError:
        """Remove the secrets from the error's texts, and return the error."""
        error.message, error.code = self.text(error.message), self.text(error.code)
        error.request_id = self.text(error.request_id)
        error.args = (error.message,)
        return error


class _Fields:
    """Copies a payload without its secrets, up to the limit."""

    def __init__(self, redactor: AnswerRedactor) -> None:
        self._redactor = redactor
        self._room = _ROOM

    def copy(self, value: Any, depth: int) -> Any:
        self._room -= _FIELD
        if isinstance(value, str):
            text = value[: max(0, self._room)]
            self._room -= min(len(text), LONGEST)
            return self._redactor.text(text)
        if isinstance(value, dict) and depth:
            # An object's own texts come first: a code and a message can follow a long list.
            items = sorted(islice(value.items(), self._fields()), key=lambda item: isinstance(item[1], dict | list))
            return {name: self.copy(inner, depth - 1) for name, inner in items if self._room > 0}
        if isinstance(value, list) and depth:
            return [self.copy(inner, depth - 1) for inner in islice(value, self._fields()) if self._room > 0]
        return None if isinstance(value, dict | list) else value

    def _fields(self) -> int:
        return max(0, self._room // _FIELD)


def _proofs(signed: SignedRequest, authorizations: Iterable[str]) -> Iterator[str]:
    """Return signatures of any algorithm in headers or in the query."""
    for value in authorizations:
        yield from (part for part in _IN_AUTHORIZATION.split(value) if len(part) >= _PROOF)
    query = signed.target.partition("?")[2]
    yield from (proof for proof in map(unquote, _SIGNATURE.findall(query)) if len(proof) >= BEGINNING)
