"""The search for secrets finds them, whatever they are wrapped in; a search that cannot fail would prove nothing."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse

import pytest
import yaml

from tests.support.planted import SPECIAL, authorizations, hits, make_secret
from trainfleet_exporter.process.logs import _logfmt_value

SECRET = make_secret("key")
NAMED = {"key": SECRET}

WAYS: dict[str, str | bytes] = {
    "plain": SECRET,
    "bytes": SECRET.encode(),
    "json": json.dumps({"key": SECRET}),
    "json in json": json.dumps({"body": json.dumps({"key": SECRET})}),
    "logfmt": f"level=info msg={_logfmt_value(SECRET)}",
    "repr": repr({"key": SECRET}),
    "repr of bytes": repr(SECRET.encode()),
    "repr in a json log": json.dumps({"msg": f"ValueError({SECRET!r})"}),
    "query": "https://host/?" + urllib.parse.urlencode({"token": SECRET}),
    "path": "https://host/" + urllib.parse.quote(SECRET, safe=""),
    "lower-case escapes": urllib.parse.quote(SECRET, safe="").replace("%2F", "%2f").replace("%22", "%22"),
    "html": f"<p>{html.escape(SECRET)}</p>",
    "base64": base64.b64encode(SECRET.encode()),
    "basic": base64.b64encode(b"user:" + SECRET.encode()),
    "basic, other user": base64.b64encode(b"me:" + SECRET.encode() + b"!"),
    "basic, third user": base64.b64encode(b"abc:" + SECRET.encode()),
    "base64url": base64.urlsafe_b64encode(SECRET.encode()),
    "basic, cut": base64.b64encode(b"user:" + SECRET.encode())[:30],
    "percent-encoded, cut": urllib.parse.quote(SECRET, safe="")[:30],
    "hex": SECRET.encode().hex(),
    "yaml": yaml.safe_dump({"key": SECRET}, width=10_000),
    "cut short": f"found '{SECRET[:20]}...",
    "cut at its beginning": f"...{SECRET[-20:]}",
    "an escape nobody knows": "".join(f"[{ord(char)}]" if char in SPECIAL else char for char in SECRET),
}


@pytest.mark.parametrize("how", WAYS)
def test_a_secret_is_found_however_it_is_written(how: str) -> None:
    output = WAYS[how]
    padded = b"head " + (output.encode() if isinstance(output, str) else output) + b" tail"
    found = hits({"log": padded}, NAMED)
    assert found
    assert all(line.startswith("log holds key (") for line in found)


def test_what_is_not_there_is_not_found() -> None:
    other = json.dumps({"key": make_secret("another")}) + base64.b64encode(b"nothing").decode() + SECRET[:8]
    assert hits({"log": other, "empty": ""}, NAMED) == []


def test_a_search_that_could_find_nothing_is_refused() -> None:
    for outputs, secrets in (({}, NAMED), ({"log": ""}, {}), ({"log": ""}, {"short": "abc"})):
        with pytest.raises(ValueError, match=r"."):
            hits(outputs, secrets)


def test_what_requests_prove_themselves_with_is_a_secret_too() -> None:
    seen = authorizations(
        [
            {
                "Authorization": "ACS3-HMAC-SHA256 Credential=id,SignedHeaders=host;x-acs-date,Signature=" + "0a" * 32,
                "x-acs-security-token": "CAIS0123456789",
                "X-aliyun-ecs-metadata-token-ttl-seconds": "21600000",
                "x-acs-date": "2026-01-01T00:00:00Z",
            },
            {"Proxy-Authorization": "Basic dXNlcjpwYXNzd29yZA==", "X-Auth-Token": "MIIF0123456789"},
            {"authorization": "an unknown scheme"},
        ]
    )
    expected = {"0a" * 32, "CAIS0123456789", "dXNlcjpwYXNzd29yZA==", "MIIF0123456789", "an unknown scheme"}
    assert set(seen.values()) == expected
    assert not [name for name in seen if any(secret in name for secret in expected)]
