"""What a cloud quotes of a request in its refusal: signatures, strings to sign, keys and tokens, whole, cut or encoded.

Each quote is made of the request as it came, so that the search cannot look for something else than what was sent.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.support.planted import Planted, authorizations, hits, make_secret
from tests.transport.rig import TopJitter
from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import CloudError, Throttled
from trainfleet_exporter.providers.alibaba_pai.api import PaiDialect
from trainfleet_exporter.providers.canonical import canonical_request
from trainfleet_exporter.providers.huawei_modelarts.api import AomDialect, HuaweiDialect, canonical_path
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.keys import GivenKeys
from trainfleet_exporter.transport import (
    Account,
    ApiClient,
    Call,
    CallLimits,
    Dialect,
    HttpAnswer,
    HttpSettings,
    SignedRequest,
    Transport,
)
from trainfleet_exporter.transport.answer_redaction import AnswerRedactor, SentSecrets

PLANTED = Planted()
KEY_ID = PLANTED.plant("access key id", special=False)
KEY_SECRET = PLANTED.plant("access key secret")
TOKEN = base64.b64encode(hashlib.sha512(b"planted").digest() * 9).decode()  # with + and /, as real ones are
PLANTED.secrets["security token"] = TOKEN
DEBRIS = "x" * 20_000


@dataclass(frozen=True)
class Sent:
    """One request as the cloud received it."""

    headers: Mapping[str, str]
    string_to_sign: str

    @property
    def authorization(self) -> str:
        return self.headers["authorization"]

    @property
    def signature(self) -> str:
        return self.authorization.rpartition("Signature=")[2]

    def secrets(self) -> dict[str, str]:
        """All that may not be shown."""
        proofs = {"signature": self.signature, "request hash": self.string_to_sign.rpartition("\n")[2]}
        return PLANTED.secrets | proofs | authorizations([self.headers])


_KEYS = GivenKeys(Secret(KEY_ID), Secret(KEY_SECRET), Secret(TOKEN))


def _pai(api: str = "dlc") -> Dialect:
    return PaiDialect(api, "2020-12-03", _KEYS, ServerClock())


def _pai_string(request: httpx.Request) -> str:
    headers = _signed_headers(request)
    hashed = canonical_request(
        method=request.method,
        path=request.url.path,
        query=request.url.query.decode(),
        headers=headers,
        body_sha256=headers["x-acs-content-sha256"],
    )
    return f"ACS3-HMAC-SHA256\n{hashlib.sha256(hashed.encode()).hexdigest()}"


def _huawei_string(request: httpx.Request) -> str:
    headers = _signed_headers(request)
    hashed = canonical_request(
        method=request.method,
        path=canonical_path(request.url.path),
        query=dict(request.url.params),
        headers=headers,
        body_sha256=hashlib.sha256(b"").hexdigest(),
    )
    return f"SDK-HMAC-SHA256\n{headers['x-sdk-date']}\n{hashlib.sha256(hashed.encode()).hexdigest()}"


def _signed_headers(request: httpx.Request) -> dict[str, str]:
    found = re.search("SignedHeaders=([^,]+)", request.headers["authorization"])
    assert found is not None
    return {name: request.headers[name] for name in found[1].split(";")}


@dataclass(frozen=True)
class Cloud:
    """How one API is spoken: `refuse` makes the body of a refusal; `success` one that says so with HTTP 200."""

    dialect: Callable[[], Dialect]
    string_to_sign: Callable[[httpx.Request], str]
    refuse: Callable[[str], dict[str, Any]]
    success: Callable[[str], dict[str, Any]]


def _pai_refusal(text: str) -> dict[str, Any]:
    return {"Code": "InvalidParameter", "Message": text, "RequestId": text}


CLOUDS = {
    "pai": Cloud(_pai, _pai_string, _pai_refusal, lambda text: {"Success": False, **_pai_refusal(text)}),
    "cloudmonitor": Cloud(lambda: _pai("cloudmonitor"), _pai_string, _pai_refusal, _pai_refusal),
    "modelarts": Cloud(
        lambda: HuaweiDialect("modelarts", _KEYS, ServerClock(), lambda: "p"),
        _huawei_string,
        lambda text: {"error_code": "APIGW.0301", "error_msg": text},
        lambda text: {"is_success": False, "error_code": "ModelArts.0001", "error_msg": text},
    ),
    "aom": Cloud(
        lambda: AomDialect("aom", _KEYS, ServerClock(), lambda: "p"),
        _huawei_string,
        lambda text: {"status": "error", "errorType": "bad_data", "error": text},
        lambda text: {"status": "error", "errorType": "bad_data", "error": text},
    ),
}


def unicode(char: str) -> str:
    return f"\\u{ord(char):04x}"


def decimal(char: str) -> str:
    return f"&#{ord(char)};"


def hexadecimal(char: str) -> str:
    return f"&#x{ord(char):X};"


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    return re.sub("[^A-Za-z0-9]", lambda found: escape(found[0]), text)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


QUOTES: dict[str, Callable[[Sent], str]] = {
    "the Authorization value": lambda sent: f"bad header Authorization: {sent.authorization}",
    "the signature": lambda sent: f"got '{sent.signature}', which is wrong",
    "the signature in upper case": lambda sent: f"got {sent.signature.upper()}",
    "the string to sign": lambda sent: f"server string to sign is:{sent.string_to_sign}",
    "the string to sign as JSON": lambda sent: json.dumps({"stringToSign": sent.string_to_sign}),
    "the key's id": lambda sent: f"{KEY_ID} may not",
    "the token": lambda sent: f"no such token: {TOKEN}",
    "headers as JSON": lambda sent: json.dumps(json.dumps(dict(sent.headers)).replace("/", "\\/")),
    "a percent-encoded token": lambda sent: f"SecurityToken={quote(TOKEN, safe='')}&x=1",
    "a percent-encoded token in lower case": lambda sent: re.sub(
        "%[0-9A-F]{2}", lambda found: found[0].lower(), quote(TOKEN, safe="")
    ),
    "a token in a form": lambda sent: f"SecurityToken={quote_plus(TOKEN)}",
    "a percent-encoded Authorization value": lambda sent: quote(sent.authorization, safe=""),
    **{
        f"base64 of {name}, {before} bytes before": lambda sent, before=before, get=get: base64.b64encode(  # type: ignore[misc]
            b":" * before + get(sent).encode() + b" and more"
        ).decode()
        for before in range(4)
        for name, get in {"the signature": lambda sent: sent.signature, "the token": lambda sent: TOKEN}.items()
    },
    "base64url of the token": lambda sent: base64.urlsafe_b64encode(b"u:" + TOKEN.encode()).decode(),
    "a token that the cloud cut": lambda sent: f"token {TOKEN[:40]}...",
    "a short beginning of a token that the cloud cut": lambda sent: f"token '{TOKEN[:12]}…' is wrong",
    "a signature that the cloud cut": lambda sent: f"signature {sent.signature[:12]}",
    "a percent-encoded token that the cloud cut": lambda sent: f"token {quote(TOKEN, safe='')[:50]}...",
    "a token with escapes of Unicode": lambda sent: f"token {_escaped(TOKEN, unicode)}",
    "a token with escapes of Unicode, twice": lambda sent: json.dumps(_escaped(TOKEN, unicode)),
    "a token with HTML entities": lambda sent: f"token {_escaped(TOKEN, decimal)} is wrong",
    "a token with HTML entities in hex": lambda sent: f"token {_escaped(TOKEN, hexadecimal)} is wrong",
    "a token with HTML entities, twice": lambda sent: html.escape(_escaped(TOKEN, decimal)),
    "a token percent-encoded twice": lambda sent: quote(quote(TOKEN, safe=""), safe=""),
    "a wrapped token": lambda sent: f"token {_wrapped(TOKEN, 64)}",
    "a wrapped token as JSON": lambda sent: json.dumps(_wrapped(TOKEN, 20)),
    "a token with spaces for +": lambda sent: f"token {TOKEN.replace('+', ' ')}",
    "the end of a token": lambda sent: f"token ...{TOKEN[-100:]} is wrong",
    "a token without its middle": lambda sent: f"token {TOKEN[:100]}...{TOKEN[-60:]} is wrong",
    "the middle of a token": lambda sent: f"token {TOKEN[150:250]} is wrong",
    "the beginning of a token in quotes": lambda sent: f"token '{TOKEN[:8]}' is wrong",
    "the beginning of a token in escaped quotes": lambda sent: json.dumps(f'token "{TOKEN[:8]}" is wrong'),
    "the beginning of a token in brackets": lambda sent: f"token ({TOKEN[:14]}) is wrong",
    "the beginning of a token as a word": lambda sent: f"token {TOKEN[:10]} is wrong",
    "a token where a dialect cuts": lambda sent: f"{'y' * 270}{TOKEN}",
    "a signature where a dialect cuts": lambda sent: f"{'y' * 280}{sent.signature}",
    "a token where the search ends": lambda sent: f"{'y' * (16 * 1024 - 30)}{TOKEN}",
}


def _shown(
    cloud: Cloud, answer: Callable[[Sent], httpx.Response], http: HttpSettings | None = None
) -> tuple[CloudError, Sent]:
    """The error that a call ends with, and what was sent."""
    sent: list[Sent] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(Sent(dict(request.headers), cloud.string_to_sign(request)))
        return answer(sent[-1])

    async def main() -> CloudError:
        transport = Transport(
            account=Account("test", CallLimits(requests_per_second=1000)),
            http=http or HttpSettings(trust_env=False),
            observe=lambda attempt: None,
            send=httpx.MockTransport(respond),
            random=TopJitter(),
        )
        client: ApiClient = transport.client("http://cloud.test", cloud.dialect())
        try:
            await client.call(
                Call(operation="GetJob", path="/api/v1/jobs", query={"Id": "a b"}),
                deadline=asyncio.get_running_loop().time() + 5,
            )
        except CloudError as error:
            return error
        raise AssertionError("the call succeeded")

    return run_stepped(main), sent[0]


def _check(error: CloudError, sent: Sent, more: Mapping[str, str] | None = None) -> None:
    shown = f"{error} {error!r} {error.code} {error.message} {error.request_id} {error.args}"
    assert hits({"error": shown}, sent.secrets() | dict(more or {})) == []


@pytest.mark.parametrize("quoted", QUOTES)
@pytest.mark.parametrize("name", CLOUDS)
def test_no_quote_of_a_request_is_shown(name: str, quoted: str) -> None:
    cloud, make = CLOUDS[name], QUOTES[quoted]
    for status, refuse, more in (
        (400, cloud.refuse, {}),
        (401, cloud.refuse, {"HostId": DEBRIS}),
        (200, cloud.success, {}),
        (200, cloud.success, {"Data": [DEBRIS]}),
    ):

        def answer(sent: Sent, status: int = status, refuse: Any = refuse, more: Any = more) -> httpx.Response:
            text = make(sent)
            header = text[:4096].replace("\n", " ").replace("…", "...")
            return httpx.Response(status, json={**more, **refuse(text)}, headers={"x-request-id": header})

        error, sent = _shown(cloud, answer)
        _check(error, sent)
        assert TOKEN[:8] not in str(error)
        assert sent.signature[:8] not in str(error).lower()


def test_what_a_refusal_says_besides_stays() -> None:
    cloud = CLOUDS["modelarts"]
    text = "verify aksk signature fail: {} was sent for GET /v2/jobs"
    error, _ = _shown(cloud, lambda sent: httpx.Response(401, json=cloud.refuse(text.format(sent.authorization))))
    assert error.message == text.format("<secret>")
    error, _ = _shown(cloud, lambda sent: httpx.Response(401, json=cloud.refuse(text.format(sent.signature))))
    assert error.message == text.format("<secret>")
    error, _ = _shown(cloud, lambda sent: httpx.Response(401, json=cloud.refuse("use SDK-HMAC-SHA256")))
    assert error.message == "use SDK-HMAC-SHA256"


def test_a_long_refusal_keeps_its_code() -> None:
    """A code behind 20 KB decides whether the exporter waits and tries again."""
    body = {"HostId": DEBRIS, "Code": "Throttling.User", "Message": f"{TOKEN} is too fast"}
    error, sent = _shown(CLOUDS["pai"], lambda sent: httpx.Response(400, json=body))
    assert isinstance(error, Throttled)
    assert (error.code, error.message) == ("Throttling.User", "<secret> is too fast")
    _check(error, sent)


def test_a_refusal_that_is_too_long_to_search_is_still_one() -> None:
    body = {**{f"field {number}": DEBRIS for number in range(20)}, "Code": "Throttling.User", "Message": TOKEN}
    error, sent = _shown(CLOUDS["pai"], lambda sent: httpx.Response(400, json=body))
    assert isinstance(error, Throttled)
    _check(error, sent)


def test_of_a_huge_refusal_only_a_part_is_searched() -> None:
    """The search must not hold up the event loop."""
    reported = SentSecrets()
    reported.note(make_secret(f"token {number}", special=False) * 100 for number in range(24))
    body = {"Message": "y" * 30 * 2**20, "Data": [{"a": "b"}] * 100_000, "Code": {"a": [["b"] * 1000] * 1000}}
    given = _answer(body)
    answer = reported.redactor(SignedRequest("GET", "/", {}, b"")).redact_answer(given)
    assert len(json.dumps(answer.payload)) < 200_000


def test_each_piece_of_each_form_is_redacted() -> None:
    secret = TOKEN[:60] + '"&= \\' + TOKEN[60:90]
    redactor = AnswerRedactor([secret])
    forms = {
        "as it is": secret,
        "JSON": json.dumps(secret)[1:-1].replace("/", "\\/"),
        "URL": quote(secret, safe=""),
        "base64": base64.b64encode(secret.encode()).decode().rstrip("="),
    }
    for form in forms.values():
        for at in range(len(form) - 17):
            assert redactor.text(f"-{form[at : at + 16]}-") == "-<secret>-"


def _answer(payload: Any) -> HttpAnswer:
    return HttpAnswer(400, httpx.Headers({}), json.dumps(payload).encode(), payload)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("planted-secret-1", "<secret>"),
        ("a PLANTED-SECRET-1 b", "a <secret> b"),
        ("planted-secret-1planted-secret-1", "<secret>"),
        ("planted-planted-secret-1", "planted-<secret>"),
        ("planted-... and planted-s… or planted-", "<secret>... and <secret>… or <secret>"),
        ("planted-s is a word here", "planted-s is a word here"),
        ("planted", "planted"),
        (
            "'planted-' (planted-se) [planted-] planted-se is wrong",
            "'<secret>' (<secret>) [<secret>] <secret> is wrong",
        ),
        ("planted-secret-\\u0031 planted%252dsecret%252D1", "<secret> <secret>"),
        ("planted-&#115;ecret-1 &amp; more\nlines", "<secret> &amp; more\nlines"),
        ("short", "<secret>"),
    ],
)
def test_where_secrets_begin_and_end(text: str, shown: str) -> None:
    assert AnswerRedactor(["planted-secret-1", "short"]).text(text) == shown


def test_parts_of_any_authorization_are_redacted() -> None:
    """Of providers that do not name their proofs, too."""
    proof = base64.b64encode(hashlib.sha1(b"x").digest()).decode()
    values = (f"OSS id:{proof}", f'Digest response="{proof}"', f"AWS4-HMAC-SHA256 Credential=a/b,Signature={proof}")
    for value in values:
        signed = SignedRequest("GET", "/", {"authorization": value}, b"")
        redactor = SentSecrets().redactor(signed)
        assert redactor.text(f"{value} is wrong") == "<secret> is wrong"
        assert proof not in redactor.text(f"in {value[:-1]}")
        assert proof not in redactor.text(f"{proof} is wrong")
    signed = SignedRequest("GET", f"/?X-Amz-Signature={quote(proof, safe='')}&Signature=short&x=1", {}, b"")
    assert SentSecrets().redactor(signed).text(f"got {proof}") == "got <secret>"


@pytest.mark.parametrize("configured", [True, False])
def test_a_proxy_that_quotes_its_password(configured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests over plain http go to the proxy with its password, and it answers in the service's place."""
    password = PLANTED.plant("proxy password")
    url = f"http://me:{quote(password, safe='')}@proxy.test:3128"
    quotes = (password, quote(password), base64.b64encode(f"me:{password}".encode()).decode())
    if not configured:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("no_proxy", "socks5://not an address")
    http = HttpSettings(proxy_url=url if configured else None, trust_env=not configured)
    for text in quotes:
        body = {"Code": "ProxyAuthenticationRequired", "Message": f"wrong: {text}"}
        error, sent = _shown(CLOUDS["pai"], lambda sent, body=body: httpx.Response(407, json=body), http)  # type: ignore[misc]
        assert error.code == "ProxyAuthenticationRequired"
        _check(error, sent)
