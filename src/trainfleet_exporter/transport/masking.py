"""Redaction of what a service quotes of a request when it refuses it: keys' ids, tokens, signatures.

A service knows no secrets but those that requests have sent to it. `Told` remembers those that one provider sent
lately, in requests of any kind: STS and the API behind it belong to the same cloud. Signatures are good for one
attempt, so only the answer to that attempt is searched for them.

Texts are redacted first and cut later: a cut secret is harder to find than a whole one.
"""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import httpx

from trainfleet_exporter.config.secrets import MASK, Secret
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.transport.calls import HttpAnswer, SignedRequest

_SHORTEST = 6
"""Characters: what is shorter would be found in words that are no secrets."""
_KEPT = 24
"""Some hours of temporary keys: each set is an id and a token."""
_LONGEST = 16 * 1024
"""Characters of one text that are searched. A dialect shows some hundred of them."""
_ROOM = 64 * 1024
"""Characters of one answer's fields that are searched, all together: the search holds up the event loop."""
_FIELD = 64
"""Characters that a field costs at least, so that the number of fields is limited, too."""
_DEPTH = 6
"""Levels of objects and lists that are searched."""
_BEGINNING = 8
"""Characters of a secret that are redacted where a text ends, or an ellipsis shows that it was cut."""
_PIECE = 16
"""Characters of a secret's beginning that are redacted anywhere."""
_PROOF = 24
"""Characters of a part of an Authorization value that are more than the name of a header."""
_CUT = ("...", "…")
_SIGNATURE = re.compile(r"signature=([^&]+)", re.IGNORECASE)
_IN_AUTHORIZATION = re.compile(r"""[\s,;:="]+""")
# A service that refuses a signature quotes its own: of a string to sign that differs from ours.
_DIGEST = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])")
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class Told:
    """The secrets that one provider's requests sent lately; `always` are those of every request."""

    def __init__(self, always: Iterable[str] = ()) -> None:
        self._always = [Secret(text, source="config") for text in always if len(text) >= _SHORTEST]
        self._secrets: dict[Secret, None] = {}

    def note(self, texts: Iterable[str]) -> None:
        """Remember what is sent now."""
        for text in texts:
            if len(text) >= _SHORTEST:
                secret = Secret(text, source="request")
                self._secrets.pop(secret, None)  # to stand last again
                self._secrets[secret] = None
        while len(self._secrets) > _KEPT:
            del self._secrets[next(iter(self._secrets))]

    def mask(self, signed: SignedRequest) -> Mask:
        """What redacts the answer to a request. Make one for each answer: it holds the secrets as they are."""
        told = [secret.reveal() for secret in (*self._always, *self._secrets)]
        values = [value for name, value in signed.headers.items() if name.lower() == "authorization"]
        return Mask([*told, *signed.proofs, *_proofs(signed, values)], values)


class Mask:
    """Redacts secrets in texts, however they are escaped there, and beginnings of them where a text was cut.

    Of those in `whole`, beginnings are no secrets (the name of an algorithm).
    """

    def __init__(self, secrets: Iterable[str], whole: Iterable[str] = ()) -> None:
        self._forms = {form.translate(_FOLD): _BEGINNING for secret in secrets for form in _forms(secret)}
        for secret in whole:
            self._forms |= {form.translate(_FOLD): len(form) for form in _forms(secret)}

    def text(self, text: str) -> str:
        """The beginning of the text, at most 16 KiB, in which `<secret>` stands for every secret."""
        text = text[:_LONGEST]
        folded = text.translate(_FOLD)
        spans = [match.span() for match in _DIGEST.finditer(text)]
        for form, least in self._forms.items():
            spans += _places(form, least, folded)
        shown: list[str] = []
        end = 0
        for start, stop in sorted(spans):
            if start > end or not shown:
                shown += [text[end:start], MASK]
            end = max(end, stop)
        return "".join((*shown, text[end:]))

    def answer(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer as it may be quoted, cut to its first 64 KiB: its headers, its body, and its payload."""
        pairs = [(name, self.text(value)) for name, value in answer.headers.items()]
        body = self.text(answer.body[:_LONGEST].decode("utf-8", "replace")).encode()
        payload = _Fields(self).copy(answer.payload, _DEPTH)
        return replace(answer, headers=httpx.Headers(pairs, encoding="utf-8"), body=body, payload=payload)

    def error(self, error: CloudError) -> CloudError:
        """The error itself, with none of the secrets in its texts."""
        error.message, error.code = self.text(error.message), self.text(error.code)
        error.request_id = self.text(error.request_id)
        error.args = (error.message,)
        return error


class _Fields:
    """Copies a payload without the secrets in it, as far as there is room."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._room = _ROOM

    def copy(self, value: Any, depth: int) -> Any:
        self._room -= _FIELD
        if isinstance(value, str):
            text = value[: max(0, self._room)]
            self._room -= min(len(text), _LONGEST)
            return self._mask.text(text)
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
    yield from (proof for proof in map(unquote, _SIGNATURE.findall(query)) if len(proof) >= _BEGINNING)


def _places(form: str, least: int, text: str) -> Iterator[tuple[int, int]]:
    """Where a form stands in a text, or `least` characters of its beginning where the text was cut."""
    head = form[:least]
    start = text.find(head)
    while start >= 0:
        piece = text[start : start + len(form)]
        end = start + (len(form) if piece == form else _common(form, piece))
        if piece == form or end - start >= _PIECE or end == len(text) or text.startswith(_CUT, end):
            yield start, end
        start = text.find(head, end if piece == form else start + 1)


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _forms(secret: str) -> Iterator[str]:
    as_json = json.dumps(secret)[1:-1]
    with_slashes = as_json.replace("/", "\\/")
    yield from (secret, as_json, with_slashes, json.dumps(secret, ensure_ascii=False)[1:-1])
    for inner in (as_json, with_slashes):  # a body that was JSON, quoted in an answer that is JSON
        yield json.dumps(inner)[1:-1]
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):  # bytes in front of it, in the same group of three (`user:password`)
        encoded = base64.b64encode(b"\0" * before + data)
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6  # what depends on no neighbour
        known = encoded[first:last].decode("ascii")
        yield from (known, known.translate(_URL_SAFE))


_URL_SAFE: Mapping[int, int] = str.maketrans("+/", "-_")
