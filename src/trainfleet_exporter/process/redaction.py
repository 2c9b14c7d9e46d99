"""Redaction of secrets in texts that the exporter did not write: tracebacks, libraries' log records, clouds' refusals.

`remember` records each secret when the process reads, receives or uses it. `redact` replaces all known secrets, also
escaped, encoded or truncated ones, and texts with the form of a secret. Redact texts first and truncate them later: a
part of a secret is harder to find than the whole.
"""

from __future__ import annotations

import base64
import html
import json
import re
import string
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn, SupportsIndex
from urllib.parse import quote, quote_plus

MASK = "<secret>"
SHORTEST = 6
"""Minimum characters of a secret: a shorter one would also match ordinary words."""
LONGEST = 16 * 1024
"""Characters of one text of a cloud that are searched. A dialect shows some hundred of them."""
BEGINNING = 8
"""Characters of a form's beginning that are redacted where the text ends or shows that it was cut."""
LONGEST_TRACE = 64 * 1024
"""Characters of a traceback or of a library's record that are searched and shown."""
_MOST_CONFIGURED, _MOST_USED = 1024, 512
"""Secrets that the process remembers of each kind; the one that was used longest ago is forgotten first.
What finds a token of 1 KB in a text takes 77 KiB, once a text was searched."""
_SECRET_PART = 16
"""Characters of any form of a secret that are redacted in every place."""
_BEGINNING_OF_WORD = 10
"""The same before white space, where a shorter beginning can be a word of the text."""
_GRAM = _SECRET_PART // 2
"""Characters of a gram. Each piece holds one whole gram of those that a form is divided into."""
_CUT = re.compile(r"""(\s)|\.\.\.|[…"'`()\[\]{}<>]|\Z""")
_ESCAPE = re.compile(
    r"\\+(?:u(?P<unicode>[0-9a-f]{4})|(?P<line>[nr])|(?P<quoted>[\"'/])|)"
    r"|%(?:25)*(?P<percent>[0-9a-f]{2})"
    r"|&(?:amp;)*(?P<entity>#[0-9]{1,6}|#x[0-9a-f]{1,5}|[a-z]{2,8});"
    r"|(?P<wrap>[\r\n][\r\n\t ]*)"
)
"""An escape in folded text, however often it was escaped again, or a line break."""
# A service that refuses a signature quotes its own: of a string to sign that differs from ours.
_DIGEST = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])")
_SHAPES = re.compile(
    r"(?<=//)[^/\s@]+(?=@)"  # the user and password of a URL
    r"|(?<=Basic )[A-Za-z0-9+/=_-]{8,}|(?<=Bearer )[^\s'\",]{8,}"
    r"|(?i:(?<=signature=))[^\s&'\",;]{16,}"
    r"|\$2[abxy]\$\d\d\$[./A-Za-z0-9]{20,53}"  # bcrypt
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*-----|\Z)",
)
"""Patterns of texts that are secrets, known or not."""
_MARKED = re.compile(b"\x01+")
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class KnownSecrets:
    """The secrets of a config, and those that the process used lately. Safe to use from several threads."""

    def __init__(self) -> None:
        self._configured: dict[str, Forms | None] = {}
        self._used: dict[str, Forms | None] = {}
        """The latest last; with their forms, which take long to make, once they were needed."""
        # A finalizer may log an error while this thread has the lock.
        self._lock = threading.RLock()

    def remember(self, *secrets: str | None, configured: bool = False) -> None:
        """Redact these from now on; None and short ones are skipped.

        What is `configured` is used once and may show up much later: temporary keys do not push it out.
        """
        texts, most = (self._configured, _MOST_CONFIGURED) if configured else (self._used, _MOST_USED)
        with self._lock:
            for secret in secrets:
                if secret and len(secret) >= SHORTEST:
                    texts[secret] = texts.pop(secret, None)
            while len(texts) > most:
                texts.pop(next(iter(texts)), None)

    def redact(self, text: str) -> str:
        """The text, at most its first 64 KiB, with `<secret>` in place of every secret.

        It takes a millisecond or more, so it is not for each line of a log.
        """
        with self._lock:
            for texts in (self._configured, self._used):
                for secret, forms in tuple(texts.items()):
                    if forms is None:
                        texts[secret] = Forms(secret)
            known = [forms for texts in (self._configured, self._used) for forms in tuple(texts.values()) if forms]
        return _SHAPES.sub(MASK, Redactor((), known=known).text(text, longest=LONGEST_TRACE))


KNOWN = KnownSecrets()
remember, redact = KNOWN.remember, KNOWN.redact


class HoldsSecrets:
    """Base of dataclasses with secret fields: with `slots=True` (so no `vars`) and `repr=False` on these fields.

    Pickling or copying one raises TypeError, because it would write down the secrets.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds secrets, which are not written down")


class _Texts(frozenset[str]):
    """Parts of a secret, which show as little as a `Secret`."""

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (MASK,)


class Forms:
    """The forms of one secret, and the grams that find them in a text."""

    __slots__ = ("beginnings", "grams", "long", "short")

    def __init__(self, secret: str) -> None:
        forms = {form.translate(_FOLD) for form in _forms(secret)}
        self.short = _Texts(form for form in forms if len(form) < _SECRET_PART)
        self.long = _Texts(form for form in forms if len(form) >= _SECRET_PART)
        self.grams = _Texts(
            form[at : at + _GRAM] for form in self.long for at in range(0, len(form) - _GRAM + 1, _GRAM)
        )
        self.beginnings = _Texts(
            form[:size] for form in forms for size in range(BEGINNING, min(_SECRET_PART, len(form)))
        )


class Redactor:
    """Redacts secrets in texts, however they are escaped there, and every piece of them that gives them away.

    Of those in `whole`, pieces are no secrets (the name of an algorithm).
    """

    def __init__(self, secrets: Iterable[str], whole: Iterable[str] = (), known: Iterable[Forms] = ()) -> None:
        self._forms = [*known, *(Forms(secret) for secret in dict.fromkeys(secrets))]
        self._whole = {form.translate(_FOLD) for secret in whole for form in _forms(secret)}
        self._whole.update(form for known in self._forms for form in known.short)
        self._beginnings = {text for known in self._forms for text in known.beginnings}

    def text(self, text: str, *, longest: int = LONGEST) -> str:
        """The first `longest` characters of the text, with `<secret>` in place of every secret."""
        text = text[:longest]
        folded = text.translate(_FOLD)
        hidden = self._hidden(folded)
        for match in _DIGEST.finditer(text):
            _hide(hidden, *match.span())
        plain, starts, ends = _unescaped(folded)
        if plain != folded:
            for run in _MARKED.finditer(self._hidden(plain)):
                _hide(hidden, starts[run.start()], ends[run.end() - 1])
        shown: list[str] = []
        end = 0
        for run in _MARKED.finditer(hidden):
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
        grams = {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}
        pieces: set[str] = set()
        for known in self._forms:
            if not known.grams.isdisjoint(grams):  # in this order, the smaller one is gone through
                pieces |= _pieces(known, grams)
        if pieces:
            for at in range(len(text) - _SECRET_PART + 1):
                if text[at : at + _SECRET_PART] in pieces:
                    _hide(hidden, at, at + _SECRET_PART)
        if not grams.isdisjoint(self._beginnings):
            for at in range(len(text) - BEGINNING + 1):
                if text[at : at + BEGINNING] in self._beginnings and 0 in hidden[at : at + _SECRET_PART]:
                    self._hide_beginnings(text, at, hidden)
        return hidden

    def _hide_beginnings(self, text: str, start: int, hidden: bytearray) -> None:
        for end in range(start + BEGINNING, min(start + _SECRET_PART, len(text) + 1)):
            if text[start:end] not in self._beginnings:
                return
            cut = _CUT.match(text, end)
            if cut and (not cut[1] or end - start >= _BEGINNING_OF_WORD):
                _hide(hidden, start, end)


def _hide(hidden: bytearray, start: int, end: int) -> None:
    hidden[start:end] = b"\1" * (end - start)


def _pieces(known: Forms, grams: set[str]) -> set[str]:
    """The pieces of a secret's forms that hold one of the grams."""
    around: set[str] = set()
    for form in known.long:
        places = [at for at in range(0, len(form) - _GRAM + 1, _GRAM) if form[at : at + _GRAM] in grams]
        around.update(form[max(0, at - _GRAM) : at + _SECRET_PART] for at in places)
    return {part[at : at + _SECRET_PART] for part in around for at in range(len(part) - _SECRET_PART + 1)}


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
    """Return the folded text of an escape; empty for a line break."""
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
