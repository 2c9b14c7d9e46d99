"""Redaction of what a service quotes of a request when it refuses it: keys' ids, tokens, signatures.

A service knows no secrets but those that requests have sent to it. `Told` remembers those that one provider sent
lately, in requests of any kind: STS and the API behind it belong to the same cloud. Signatures are good for one
attempt, so only the answer to that attempt is searched for them.

Texts are redacted first and cut later: a cut secret is harder to find than a whole one.
"""

from __future__ import annotations

import base64
import html
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
_PIECE = 16
"""Characters of any form of a secret that are redacted wherever they stand."""
_BEGINNING = 8
"""Characters of a form's beginning that are redacted where the text ends or shows that it was cut."""
_BEGINNING_OF_WORD = 10
"""The same before white space, where a shorter beginning can be a word of the text."""
_STEP = _PIECE // 2
"""Characters of a gram. Each piece holds one whole gram of those that a form is divided into."""
_PROOF = 24
"""Characters of a part of an Authorization value that are more than the name of a header."""
_CUT = re.compile(r"""(\s)|\.\.\.|[…"'`()\[\]{}<>]|\Z""")
_ESCAPE = re.compile(
    r"\\+(?:u(?P<unicode>[0-9a-f]{4})|(?P<line>[nr])|(?P<quoted>[\"'/])|)"
    r"|%(?:25)*(?P<percent>[0-9a-f]{2})"
    r"|&(?:amp;)*(?P<entity>#[0-9]{1,6}|#x[0-9a-f]{1,5}|[a-z]{2,8});"
    r"|(?P<wrap>[\r\n][\r\n\t ]*)"
)
"""An escape in folded text, however often it was escaped again, or a line break."""
_SIGNATURE = re.compile(r"signature=([^&]+)", re.IGNORECASE)
_IN_AUTHORIZATION = re.compile(r"""[\s,;:="]+""")
# A service that refuses a signature quotes its own: of a string to sign that differs from ours.
_DIGEST = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])")
_RUN = re.compile(b"\x01+")
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class _Texts(frozenset[str]):
    """Parts of a secret, which show as little as a `Secret`."""

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (MASK,)


class _Forms:
    """The ways to write one secret, and what finds them in a text."""

    __slots__ = ("beginnings", "grams", "long", "short")

    def __init__(self, secret: str) -> None:
        forms = {form.translate(_FOLD) for form in _forms(secret)}
        self.short = _Texts(form for form in forms if len(form) < _PIECE)
        self.long = _Texts(form for form in forms if len(form) >= _PIECE)
        self.grams = _Texts(
            form[at : at + _STEP] for form in self.long for at in range(0, len(form) - _STEP + 1, _STEP)
        )
        self.beginnings = _Texts(form[:size] for form in forms for size in range(_BEGINNING, min(_PIECE, len(form))))


class Told:
    """The secrets that one provider's requests sent lately; `always` are those of every request."""

    def __init__(self, always: Iterable[str] = ()) -> None:
        self._always = [_Forms(text) for text in always if len(text) >= _SHORTEST]
        self._secrets: dict[Secret, _Forms] = {}

    def note(self, texts: Iterable[str]) -> None:
        """Remember what is sent now."""
        for text in texts:
            if len(text) >= _SHORTEST:
                secret = Secret(text, source="request")
                forms = self._secrets.pop(secret, None)  # to stand last again
                self._secrets[secret] = forms or _Forms(text)
        while len(self._secrets) > _KEPT:
            del self._secrets[next(iter(self._secrets))]

    def mask(self, signed: SignedRequest) -> Mask:
        """What redacts the answer to a request. Make one for each answer: it holds the secrets as they are."""
        values = [value for name, value in signed.headers.items() if name.lower() == "authorization"]
        return Mask([*signed.proofs, *_proofs(signed, values)], values, (*self._always, *self._secrets.values()))


class Mask:
    """Redacts secrets in texts, however they are escaped there, and every piece of them that gives them away.

    Of those in `whole`, pieces are no secrets (the name of an algorithm).
    """

    def __init__(self, secrets: Iterable[str], whole: Iterable[str] = (), known: Iterable[_Forms] = ()) -> None:
        self._known = [*known, *(_Forms(secret) for secret in dict.fromkeys(secrets))]
        self._whole = {form.translate(_FOLD) for secret in whole for form in _forms(secret)}
        self._whole.update(form for known in self._known for form in known.short)
        self._beginnings = {text for known in self._known for text in known.beginnings}

    def text(self, text: str) -> str:
        """The beginning of the text, at most 16 KiB, in which `<secret>` stands for every secret."""
        text = text[:_LONGEST]
        folded = text.translate(_FOLD)
        hidden = self._hidden(folded)
        for match in _DIGEST.finditer(text):
            _hide(hidden, *match.span())
        plain, starts, ends = _unescaped(folded)
        if plain != folded:
            for run in _RUN.finditer(self._hidden(plain)):
                _hide(hidden, starts[run.start()], ends[run.end() - 1])
        shown: list[str] = []
        end = 0
        for run in _RUN.finditer(hidden):
            shown += [text[end : run.start()], MASK]
            end = run.end()
        return "".join((*shown, text[end:]))

    def _hidden(self, text: str) -> bytearray:
        """A byte for each character of the folded text: 1 where it belongs to a secret.

        The grams pick the pieces of secrets that the text may hold. The text is then searched once for all of them, so
        that the work is linear, for a secret that repeats itself, too.
        """
        hidden = bytearray(len(text))
        for form in self._whole:
            start = text.find(form)
            while start >= 0:
                _hide(hidden, start, start + len(form))
                start = text.find(form, start + len(form))
        grams = {text[at : at + _STEP] for at in range(len(text) - _STEP + 1)}
        pieces: set[str] = set()
        for known in self._known:
            if not known.grams.isdisjoint(grams):  # in this order, the smaller one is gone through
                pieces |= _pieces(known, grams)
        if pieces:
            for at in range(len(text) - _PIECE + 1):
                if text[at : at + _PIECE] in pieces:
                    _hide(hidden, at, at + _PIECE)
        if not grams.isdisjoint(self._beginnings):
            for at in range(len(text) - _BEGINNING + 1):
                if text[at : at + _BEGINNING] in self._beginnings and 0 in hidden[at : at + _PIECE]:
                    self._hide_beginnings(text, at, hidden)
        return hidden

    def _hide_beginnings(self, text: str, start: int, hidden: bytearray) -> None:
        for end in range(start + _BEGINNING, min(start + _PIECE, len(text) + 1)):
            if text[start:end] not in self._beginnings:
                return
            cut = _CUT.match(text, end)
            if cut and (not cut[1] or end - start >= _BEGINNING_OF_WORD):
                _hide(hidden, start, end)

    def answer(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer as it may be quoted, cut to its first 64 KiB: its headers, its body, and its payload."""
        pairs = [(name, self.text(value)) for name, value in answer.headers.items()]
        body = self.text(answer.body[:_LONGEST].decode("utf-8", "replace")).encode()
        payload = _Fields(self).copy(answer.payload, _DEPTH)
        return replace(answer, headers=httpx.Headers(pairs, encoding="utf-8"), body=body, payload=payload, fields=None)

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


def _hide(hidden: bytearray, start: int, end: int) -> None:
    hidden[start:end] = b"\1" * (end - start)


def _pieces(known: _Forms, grams: set[str]) -> set[str]:
    """The pieces of a secret's forms that hold one of the grams."""
    around: set[str] = set()
    for form in known.long:
        places = [at for at in range(0, len(form) - _STEP + 1, _STEP) if form[at : at + _STEP] in grams]
        around.update(form[max(0, at - _STEP) : at + _PIECE] for at in places)
    return {part[at : at + _PIECE] for part in around for at in range(len(part) - _PIECE + 1)}


def _unescaped(text: str) -> tuple[str, list[int], list[int]]:
    """The text without escapes and line breaks, and for each character where it starts and ends in the text."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for match in _ESCAPE.finditer(text):
        plain = _character(match)
        parts += [text[last : match.start()], plain]
        starts += [*range(last, match.start()), *[match.start()] * len(plain)]
        ends += [*range(last + 1, match.start() + 1), *[match.end()] * len(plain)]
        last = match.end()
    starts += range(last, len(text))
    ends += range(last + 1, len(text) + 1)
    return "".join((*parts, text[last:])), starts, ends


def _character(match: re.Match[str]) -> str:
    """What an escape stands for, folded; nothing for a line break."""
    plain = match["quoted"] or "\\"
    if match["line"] or match["wrap"]:
        return ""
    if code := match["unicode"] or match["percent"]:
        plain = chr(int(code, 16))
    elif entity := match["entity"]:
        plain = html.unescape(f"&{entity};")
    return "" if plain in "\r\n" else plain.translate(_FOLD)


def _forms(secret: str) -> Iterator[str]:
    as_json = json.dumps(secret)[1:-1]
    with_slashes = as_json.replace("/", "\\/")
    yield from (secret, as_json, with_slashes, json.dumps(secret, ensure_ascii=False)[1:-1])
    for inner in (as_json, with_slashes):  # a body that was JSON, quoted in an answer that is JSON
        yield json.dumps(inner)[1:-1]
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret), secret.replace("+", " "))
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):  # bytes in front of it, in the same group of three (`user:password`)
        encoded = base64.b64encode(b"\0" * before + data)
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6  # what depends on no neighbour
        known = encoded[first:last].decode("ascii")
        yield from (known, known.translate(_URL_SAFE))


_URL_SAFE: Mapping[int, int] = str.maketrans("+/", "-_")
