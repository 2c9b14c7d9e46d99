"""Redaction of credentials that a service quotes when it refuses a request: ids of keys, tokens, signatures.

A service knows no secrets but those that requests have sent to it. `SentSecrets` remembers those that one provider sent
lately, in requests of any kind: STS and the API behind it belong to the same cloud. A signature is valid for one
attempt, so only the answer to that attempt is searched for it.
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
"""Some hours of temporary keys: each set is an id and a token."""
_ROOM = 64 * 1024
"""Characters of one answer's fields that are searched, all together: the search holds up the event loop."""
_FIELD = 64
"""Characters that a field costs at least, so that the number of fields is limited, too."""
_DEPTH = 6
"""Levels of objects and lists that are searched."""
_PROOF = 24
"""Characters of a part of an Authorization value that are more than the name of a header."""
_SIGNATURE = re.compile(r"signature=([^&]+)", re.IGNORECASE)
_IN_AUTHORIZATION = re.compile(r"""[\s,;:="]+""")


class SentSecrets:
    """The secrets that one provider's requests sent lately; `always` are those of every request."""

    def __init__(self, always: Iterable[str] = ()) -> None:
        always = tuple(always)
        remember(*always)
        self._always = [Forms(text) for text in always if len(text) >= SHORTEST]
        self._secrets: dict[bytes, Forms] = {}
        """By a hash of the secret, so that no repr of it can show the secret."""

    def note(self, texts: Iterable[str]) -> None:
        """Remember what is sent now."""
        for text in texts:
            if len(text) >= SHORTEST:
                remember(text)
                key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
                forms = self._secrets.pop(key, None)  # to stand last again
                self._secrets[key] = forms or Forms(text)
        while len(self._secrets) > _SECRETS_KEPT:
            del self._secrets[next(iter(self._secrets))]

    def redactor(self, signed: SignedRequest) -> AnswerRedactor:
        """What redacts the answer to a request. Make one for each answer: it holds the secrets as they are."""
        values = [value for name, value in signed.headers.items() if name.lower() == "authorization"]
        return AnswerRedactor(
            [*signed.proofs, *_proofs(signed, values)], values, (*self._always, *self._secrets.values())
        )


class AnswerRedactor(Redactor):
    """Redacts secrets in an answer and in the error that is made of it."""

    def redact_answer(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer as it may be quoted, cut to its first 64 KiB: its headers, its body, and its payload."""
        pairs = [(name, self.text(value)) for name, value in answer.headers.items()]
        body = self.text(answer.body[:LONGEST].decode("utf-8", "replace")).encode()
        payload = _Fields(self).copy(answer.payload, _DEPTH)
        return replace(answer, headers=httpx.Headers(pairs, encoding="utf-8"), body=body, payload=payload)

    def redact_error(self, error: CloudError) -> CloudError:
        """The error itself, with none of the secrets in its texts."""
        error.message, error.code = self.text(error.message), self.text(error.code)
        error.request_id = self.text(error.request_id)
        error.args = (error.message,)
        return error


class _Fields:
    """Copies a payload without the secrets in it, as far as there is room."""

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
            # An object's own texts go first: a code and a message can stand behind a long list.
            items = sorted(islice(value.items(), self._fields()), key=lambda item: isinstance(item[1], dict | list))
            return {name: self.copy(inner, depth - 1) for name, inner in items if self._room > 0}
        if isinstance(value, list) and depth:
            return [self.copy(inner, depth - 1) for inner in islice(value, self._fields()) if self._room > 0]
        return None if isinstance(value, dict | list) else value

    def _fields(self) -> int:
        return max(0, self._room // _FIELD)


def _proofs(signed: SignedRequest, authorizations: Iterable[str]) -> Iterator[str]:
    """Signatures and the like, in headers or in the query, whatever the algorithm."""
    for value in authorizations:
        yield from (part for part in _IN_AUTHORIZATION.split(value) if len(part) >= _PROOF)
    query = signed.target.partition("?")[2]
    yield from (proof for proof in map(unquote, _SIGNATURE.findall(query)) if len(proof) >= BEGINNING)
