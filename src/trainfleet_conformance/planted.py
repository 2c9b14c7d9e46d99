"""Secrets that are easy to recognize, and a search for them in all outputs of a program.

    secrets = Planted()
    key = secrets.plant("access key secret")
    ...
    assert secrets.hits({"log": log, "/metrics": page}) == []

The search also finds a secret that is escaped, truncated, or in base64 or hex. Escapes of JSON, URLs, HTML, log lines
and reprs keep letters and digits, so it looks for long runs of them. `hits` names the output and the secret. It never
returns the secret itself, because a failing test prints the result. Signatures, temporary keys and tokens are further
secrets: `authorizations` reads them from the requests of a simulated cloud.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
SPECIAL = "\"\\'<>&%+/= {}$;,"
"""Characters that logfmt, JSON, HTML, URLs or YAML escape."""
SHORTEST = 8
"""Minimum length of a secret; a shorter one would also match other text."""
_PIECE = 16
"""Number of characters that identify a secret in truncated output."""
_SIGNATURE = re.compile(r".*Signature=([0-9a-fA-F]{16,}).*|\w+ (\S{8,})")
"""The proof in an Authorization header. The rest of a signed one is names of headers and the id of a key."""


def make_secret(name: str, *, special: bool = True) -> str:
    """Make a secret of about 40 characters, the same for the same name; with `special`, it needs escapes.

    It begins and ends with letters and digits, which no parser trims and no escape changes. No two special characters
    are adjacent, so the secret never has `${`.
    """
    source = random.Random(hashlib.sha256(name.encode()).digest())

    def run(length: int) -> str:
        return "".join(source.choice(ALPHABET) for _ in range(length))

    middle = "".join(char + run(1) for char in source.sample(SPECIAL, len(SPECIAL))) if special else run(16)
    return run(14) + middle + run(14)


class Planted:
    """The secrets of one test, by name. Those from elsewhere are added to `secrets`."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def plant(self, name: str, *, special: bool = True) -> str:
        """Return a new secret, or the same one for a known name."""
        return self.secrets.setdefault(name, make_secret(name, special=special))

    def hits(self, outputs: Mapping[str, bytes | str]) -> list[str]:
        """Return the `hits` of these secrets."""
        return hits(outputs, self.secrets)


def hits(outputs: Mapping[str, bytes | str], secrets: Mapping[str, str]) -> list[str]:
    """Return `OUTPUT holds SECRET (HOW)` for every find.

    Raise ValueError if a secret is too short, or if there are no secrets or no outputs: such a search could never find
    anything.
    """
    if not secrets or not outputs:
        raise ValueError("nothing to search, or nothing to search for")
    if short := [name for name, text in secrets.items() if len(text) < SHORTEST]:
        raise ValueError(f"too short to be looked for: {', '.join(short)}")
    # Most forms of a secret of letters and digits are equal, and are searched for once.
    forms = {name: {form: how for how, form in _forms(text)} for name, text in secrets.items()}
    searched = {
        name: each.encode("utf-8", "surrogatepass") if isinstance(each, str) else each for name, each in outputs.items()
    }
    found = [
        f"{output} holds {name} ({how})"
        for output, data in searched.items()
        for name, ways in forms.items()
        for form, how in ways.items()
        if form in data
    ]
    return list(dict.fromkeys(found))


def authorizations(headers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the secrets in requests' headers by name: signatures, tokens and other credentials.

    A signature expires soon. But a signature in a log shows a place where other secrets may appear.
    """
    found: dict[str, str] = {}
    for low, value in ((name.lower(), value) for each in headers for name, value in each.items()):
        proof = ""
        if low in {"authorization", "proxy-authorization"}:
            match = _SIGNATURE.fullmatch(value)
            proof = value if match is None else match[1] or match[2]
        elif "token" in low and "ttl" not in low and len(value) >= SHORTEST:
            proof = value
        if proof:  # the name distinguishes values without showing them
            found[f"{low} {hashlib.sha256(proof.encode()).hexdigest()[:8]}"] = proof
    return found


def _forms(secret: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the forms of a secret, possibly with duplicates."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield "as it is", raw
    yield from (("a part of it", run.encode()) for run in re.findall(r"[A-Za-z0-9]{9,}", secret))
    # Of a secret without long runs, these are the usual forms.
    yield "JSON", json.dumps(secret)[1:-1].encode()
    yield "URL", quote(secret, safe="").encode()
    yield "hex", raw.hex().encode()
    yield "UTF-16", secret.encode("utf-16-le", "surrogatepass")
    for offset in range(3):
        # Leave out the characters that depend on the text around the secret, as in `user:secret`.
        kept = slice(-(-offset * 8 // 6) + bool(offset), (offset + len(raw)) * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            inside = encode(b"\0" * offset + raw)[kept]
            yield "base64", inside
            if len(inside) >= 2 * _PIECE:
                yield "the beginning of base64", inside[:_PIECE]
