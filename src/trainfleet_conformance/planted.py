"""Secrets that are easy to recognize, and a search for them in all outputs of a program.

    secrets = Planted()
    key = secrets.plant("access key secret")
    ...
    assert secrets.hits({"log": log, "/metrics": page}) == []

The search also finds a secret with the escapes of JSON, a URL, HTML, a log line or a Python repr, in base64 or hex, or
truncated. `hits` names the output and the secret. It never returns the secret itself, because a failing test prints the
result. Signatures, temporary keys and tokens are further secrets: `authorizations` reads them from the requests of a
simulated cloud.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
SPECIAL = "\"\\'<>&%+/= {}$;,"
"""Characters that logfmt, JSON, HTML, URLs or YAML escape."""
SHORTEST = 8
"""Minimum length of a secret; a shorter one would also match other text."""
_PIECE = 16
"""Number of characters that identify a secret in truncated output."""


def make_secret(name: str, *, special: bool = True, seed: int = 0) -> str:
    """Make a secret of about 40 characters, the same for the same name and seed; with `special`, it needs escapes.

    It begins and ends with letters and digits, which no parser trims and no escape changes. No two special characters
    are adjacent, so the secret never has `${`.
    """
    source = random.Random(hashlib.sha256(f"{seed}/{name}".encode()).digest())

    def run(length: int) -> str:
        return "".join(source.choice(ALPHABET) for _ in range(length))

    middle = "".join(char + run(1) for char in source.sample(SPECIAL, len(SPECIAL))) if special else run(16)
    return run(14) + middle + run(14)


class Planted:
    """The secrets of one test, by name."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.secrets: dict[str, str] = {}

    def plant(self, name: str, *, special: bool = True) -> str:
        """Return a new secret, or the same one for a known name."""
        if name not in self.secrets:
            self.secrets[name] = make_secret(name, special=special, seed=self._seed)
        return self.secrets[name]

    def add(self, name: str, text: str) -> None:
        """Add a secret from elsewhere. Raise ValueError if it is too short for the search."""
        if len(text) < SHORTEST:
            raise ValueError(f"{name} is shorter than {SHORTEST} characters")
        self.secrets[name] = text

    def hits(self, outputs: Mapping[str, bytes | str]) -> list[str]:
        """Return the `hits` of these secrets."""
        return hits(outputs, self.secrets)


def hits(outputs: Mapping[str, bytes | str], secrets: Mapping[str, str] | Iterable[str]) -> list[str]:
    """Return `OUTPUT holds SECRET (HOW)` for every find; secrets without names are named by their number.

    Raise ValueError if a secret is too short, or if there are no secrets or no outputs: such a search could never find
    anything.
    """
    named = dict(secrets) if isinstance(secrets, Mapping) else {f"#{i}": text for i, text in enumerate(secrets)}
    if not named or not outputs:
        raise ValueError("nothing to search, or nothing to search for")
    if short := [name for name, text in named.items() if len(text) < SHORTEST]:
        raise ValueError(f"too short to be looked for: {', '.join(short)}")
    patterns = {name: _by_way(text) for name, text in named.items()}
    found: list[str] = []
    for output, given in outputs.items():
        for how_read, data in _readings(given):
            for name, ways in patterns.items():
                for way, hows in ways.items():
                    if way in data:
                        found += [f"{output} holds {name} ({how_read}{how})" for how in hows]
    return list(dict.fromkeys(found))


def authorizations(headers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the secrets in requests' headers by name: signatures, tokens and other credentials.

    A signature expires soon. But a signature in a log shows a place where other secrets may appear.
    """
    found: dict[str, str] = {}
    for each in headers:
        for name, value in each.items():
            low = name.lower()
            if low in {"authorization", "proxy-authorization"}:
                # The rest of a signed header is the names of headers and the id of a key, which is another secret.
                match = re.search(r"Signature=([0-9a-fA-F]{16,})", value) or re.fullmatch(r"\w+ (\S{8,})", value)
                proof = value if match is None else match[1]
                found[f"{low} {_short(proof)}"] = proof
            elif "token" in low and "ttl" not in low and len(value) >= SHORTEST:
                found[f"{low} {_short(value)}"] = value
    return found


def _short(value: str) -> str:
    """Distinguish values without showing them."""
    return hashlib.sha256(value.encode()).hexdigest()[:8]


def _readings(given: bytes | str) -> Iterator[tuple[str, bytes]]:
    """Return the output, and the output before its compression."""
    data = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else given
    yield "", data
    if data[:2] == b"\x1f\x8b":
        try:
            yield "gzip, ", zlib.decompressobj(31).decompress(data)
        except zlib.error:
            return


def _by_way(secret: str) -> dict[bytes, list[str]]:
    """Return the texts to search for, each once: most forms of a secret of letters and digits are equal."""
    found: defaultdict[bytes, list[str]] = defaultdict(list)
    for how, way in _ways(secret):
        found[way].append(how)
    return found


def _ways(secret: str) -> Iterator[tuple[str, bytes]]:
    """Yield every form of a secret as bytes, possibly with duplicates."""
    as_json = json.dumps(secret)[1:-1]
    texts = {
        "as it is": secret,
        "JSON": as_json,
        "JSON in JSON": json.dumps(as_json)[1:-1],
        "JSON, not ASCII": json.dumps(secret, ensure_ascii=False)[1:-1],
        "JSON with slashes escaped": as_json.replace("/", "\\/"),
        "a label value": secret.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""),
        "repr": repr(secret)[1:-1],
        "repr in JSON": json.dumps(repr(secret)[1:-1])[1:-1],
        "repr of bytes": repr(secret.encode())[2:-1],
        "YAML, single quotes": secret.replace("'", "''"),
        "dollars doubled": secret.replace("$", "$$"),
        "URL": quote(secret, safe=""),
        "URL in lower case": re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quote(secret, safe="")),
        "URL path": quote(secret),
        "form": quote_plus(secret),
        "URL twice": quote(quote(secret, safe=""), safe=""),
        "HTML": html.escape(secret),
        "HTML without quotes": html.escape(secret, quote=False),
        "HTML in decimal": html.escape(secret).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        "hex": secret.encode().hex(),
        "upper-case hex": secret.encode().hex().upper(),
    }
    for how, text in texts.items():
        yield how, text.encode("utf-8", "surrogatepass")
    yield "UTF-16", secret.encode("utf-16-le", "surrogatepass")
    for offset in range(3):
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            inside = _inside_base64(secret, offset, encode)
            yield f"{name} at offset {offset}", inside
            if len(inside) >= 2 * _PIECE:
                yield f"the beginning of {name} at offset {offset}", inside[:_PIECE]
    for how, piece in _pieces(secret):
        yield how, piece.encode()


def _inside_base64(secret: str, offset: int, encode: object) -> bytes:
    """Return the part of the secret's base64 that does not depend on the text around it, as in `user:secret`."""
    assert callable(encode)
    encoded: bytes = encode(b"\0" * offset + secret.encode("utf-8", "surrogatepass"))
    first = -(-offset * 8 // 6) + (1 if offset else 0)
    whole = (offset + len(secret.encode("utf-8", "surrogatepass"))) * 8 // 6
    return encoded[first:whole]


def _pieces(secret: str) -> Iterator[tuple[str, str]]:
    """Return beginnings, middles and ends that are long enough to identify the secret."""
    if len(secret) >= 2 * _PIECE:
        middle = len(secret) // 2 - _PIECE // 2
        yield "its beginning", secret[:_PIECE]
        yield "its end", secret[-_PIECE:]
        yield "its middle", secret[middle : middle + _PIECE]
    # The parts that no escape changes: an unknown escape keeps them.
    for run in re.findall(r"[A-Za-z0-9]{9,}", secret):
        yield "a part of it", run
