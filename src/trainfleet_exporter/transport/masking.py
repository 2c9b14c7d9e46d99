"""Taking out of answers what requests told to prove who asks: services quote it when they refuse something.

A service knows no secrets but those that it was told. What is remembered here is what one provider told lately, in
requests of any kind: STS and the API behind it belong to the same cloud.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote, quote_plus

from trainfleet_exporter.config.secrets import MASK, Secret
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.transport.body import decode_json
from trainfleet_exporter.transport.calls import HttpAnswer

_SHORTEST = 6
"""Characters: what is shorter would be found in words that are no secrets."""
_KEPT = 24
"""Some hours of temporary keys: each set is an id and a token."""
_LONGEST = 16 * 1024
"""Bytes of a refusal that are looked at: it is some lines of text, and looking for secrets takes time."""


class Told:
    """The secrets that one provider's requests told lately."""

    def __init__(self) -> None:
        self._secrets: dict[Secret, None] = {}
        self._mask: Mask | None = None

    def note(self, texts: Iterable[str]) -> None:
        """These are told now."""
        for text in texts:
            if len(text) >= _SHORTEST:
                secret = Secret(text, source="request")
                if secret not in self._secrets:
                    self._mask = None
                self._secrets.pop(secret, None)  # to stand last again
                self._secrets[secret] = None
        while len(self._secrets) > _KEPT:
            del self._secrets[next(iter(self._secrets))]

    def mask(self) -> Mask:
        """What hides them."""
        if self._mask is None:
            self._mask = Mask(secret.reveal() for secret in self._secrets)
        return self._mask


class Mask:
    """Hides some secrets in texts, however they are escaped there."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be a part of another.
        ways = sorted({way for secret in secrets for way in _ways(secret)}, key=len, reverse=True)
        self._form = re.compile("|".join(map(re.escape, ways)), re.IGNORECASE) if ways else None

    def text(self, text: str) -> str:
        """The text with every secret in it replaced by `<secret>`."""
        return text if self._form is None else self._form.sub(MASK, text)

    def answer(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer with a body that holds none of the secrets, nor anything beyond its beginning; to be judged in its
        stead."""
        if self._form is None:
            return answer
        text = answer.body[:_LONGEST].decode("utf-8", "surrogateescape")
        body = self.text(text).encode("utf-8", "surrogateescape")
        return replace(answer, body=body, payload=decode_json(body))

    def error(self, error: CloudError) -> CloudError:
        """The error itself, with none of the secrets in its texts."""
        error.message, error.code = self.text(error.message), self.text(error.code)
        error.request_id = self.text(error.request_id)
        error.args = (error.message,)
        return error


def _ways(secret: str) -> Iterator[str]:
    as_json = json.dumps(secret)[1:-1]
    yield from (secret, as_json, as_json.replace("/", "\\/"), json.dumps(secret, ensure_ascii=False)[1:-1])
    yield json.dumps(as_json)[1:-1]  # a body that was JSON, quoted in an answer that is JSON
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
