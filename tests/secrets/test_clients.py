"""Every client of every cloud: redirects are not followed, certificates are verified, and neither can be turned off."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.secrets.kinds import KINDS, PLANTED, Kind, build
from tests.secrets.reach import reachable
from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.transport.rig import JSON_OK, RawServer, Serve, http, raw_server
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.errors import CloudError, ConfigError
from trainfleet_exporter.transport import ApiClient, Call

REFLECTED = PLANTED.plant("secret in a redirect", special=False)
# One of each way to a first call: signed, by token, open; by the provider's transport, or by the one for what is near.
WAYS = [
    "pai: keys",
    "pai: role",
    "pai: oidc",
    "pai: machine",
    "modelarts: keys",
    "modelarts: keys without a project",
    "modelarts: password",
    "modelarts: oidc",
    "modelarts: machine",
]
FIRST_CALLS = {
    "pai: role": b"POST /?",
    "pai: oidc": b"POST / ",
    "pai: machine": b"PUT /latest/api/token ",
    "modelarts: keys without a project": b"GET /v3/projects?",
    "modelarts: password": b"POST /v3/auth/tokens?",
    "modelarts: oidc": b"POST /v5/agencies/assume-with-oidc ",
    "modelarts: machine": b"PUT /meta-data/latest/api/token ",
}
_STATIC_APIS = {
    "pai: keys": {"dlc", "paistudio", "aiworkspace", "cloudmonitor"},
    "modelarts: keys": {"modelarts", "iam", "aom"},
}


async def _ask_by_every_client(exporter: Exporter) -> list[CloudError]:
    """Poll once, and then call by each client that there is; the errors, each of which a log or page would show."""
    await exporter.runners[0].tick()
    errors = [error for error in exporter.runners[0].errors if isinstance(error, CloudError)]
    for client in [each for each in reachable(exporter) if isinstance(each, ApiClient)]:
        try:
            await client.call(Call(operation="Probe", path="/probe"), deadline=asyncio.get_running_loop().time() + 20)
        except CloudError as error:
            errors.append(error)
    return errors


def _apis(exporter: Exporter) -> set[str]:
    dialects = [each._dialect for each in reachable(exporter) if isinstance(each, ApiClient)]
    return {dialect.api for dialect in dialects}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """At the end, no log may hold a secret."""
    caplog.set_level(logging.DEBUG)
    yield caplog
    assert PLANTED.hits({"log": caplog.text or "-"}) == []


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
@pytest.mark.parametrize("name", WAYS)
async def test_redirect_is_reported_and_not_followed(
    name: str, status: str, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    async with raw_server(JSON_OK) as elsewhere:
        location = f"Location: http://me:{REFLECTED}@{elsewhere.address}/{REFLECTED}?token={REFLECTED}#{REFLECTED}"
        async with raw_server(http(b"{}", location, status=status)) as server:
            exporter = build(tmp_path, KINDS[name], f"http://{server.address}")
            try:
                errors = await _ask_by_every_client(exporter)
                assert _apis(exporter) >= _STATIC_APIS.get(name, set())
            finally:
                await exporter.aclose()
        assert elsewhere.connections == 0
        assert server.heads[0].startswith(FIRST_CALLS.get(name, b"GET "))
        probes = [head for head in server.heads if head.startswith(b"GET /probe")]
        assert len(probes) >= len(_STATIC_APIS.get(name, set()))
        reported = f"redirected to {elsewhere.address}; redirects are not followed"
        # A call that was refused a moment ago is not repeated: the same error is raised.
        assert errors
        assert [error for error in errors if reported not in str(error)] == []
        assert PLANTED.hits({str(n): str(error) for n, error in enumerate(errors)}) == []


def _echoing(status: str) -> Serve:
    """A service that quotes the whole request where it refuses it, as JSON of either cloud's form and as a header."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = SERVERS[-1].heads[-1].decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        body = (await reader.readexactly(int(length[1]) if length else 0)).decode()
        # Messages are cut at 300 characters: wherever that is, no half of a secret may be left.
        quoted = "x" * (len(SERVERS[-1].heads) * 61 % 300) + f"{body} {head}"
        payload = {"Code": "Forbidden.Quoted", "Message": quoted, "error_msg": quoted, "error": {"message": quoted}}
        writer.write(http(json.dumps(payload).encode(), status=status))
        await writer.drain()

    return serve


SERVERS: list[RawServer] = []


@pytest.mark.parametrize("status", ["403 Forbidden", "400 Bad Request", "200 OK"])
@pytest.mark.parametrize("name", WAYS)
async def test_quoted_parts_of_the_request_are_redacted(
    name: str, status: str, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    async with raw_server(_echoing(status)) as server:
        SERVERS.append(server)
        exporter = build(tmp_path, KINDS[name], f"http://{server.address}")
        try:
            errors = await _ask_by_every_client(exporter)
            shown = (await exporter.text()).decode()
        finally:
            await exporter.aclose()
        assert errors
        assert server.heads
        reported = {str(number): repr(error) + str(error) for number, error in enumerate(errors)}
        assert PLANTED.hits(reported | {"/metrics": shown}) == []


BAD: dict[str, tuple[dict[str, object], str]] = {
    "of an unknown authority": ({}, "certificate not trusted: unable to get local issuer certificate"),
    "self-signed": ({"self_signed": True}, "certificate not trusted: self-signed certificate"),
    "of another host": ({"host": "other.test"}, "certificate not trusted: "),
    "of another address": ({"host": "127.0.0.2"}, "certificate not trusted: IP address mismatch"),
    "expired": ({"expired": True}, "certificate not trusted: certificate has expired"),
    "with TLS 1.1 at most": ({"highest": ssl.TLSVersion.TLSv1_1}, "failed"),
}


def _over_tls(folder: Path, name: str, fault: str) -> tuple[list[CloudError], RawServer]:
    """Every client's errors with a server that has this fault; the exporter trusts one authority."""
    authority, other = Authority(folder, "known"), Authority(folder, "other")
    issuer = other if fault == "of an unknown authority" else authority
    context = issuer.server(**BAD[fault][0])  # type: ignore[arg-type]  # as the table says
    kind = KINDS[name]

    async def main() -> tuple[list[CloudError], RawServer]:
        async with raw_server(JSON_OK, context) as server:
            settings = {"ca_file": str(authority.file), "allow_plain_http": True}
            exporter = build(folder, kind, f"https://{server.address}", http=settings)
            try:
                errors = await _ask_by_every_client(exporter)
            finally:
                await exporter.aclose()
            return errors, server

    return run_stepped(main)


def _loop_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="asyncio")  # the server's side of a handshake that fails


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("name", ["pai: keys", "modelarts: keys"])
def test_a_bad_certificate_ends_every_call(
    name: str, fault: str, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    _loop_is_quiet(logged)
    errors, server = _over_tls(tmp_path, name, fault)
    assert errors
    assert {error.reason for error in errors} == {"network"}
    assert "network" in {error.reason for error in errors}
    assert BAD[fault][1] in str(errors[0])
    assert server.heads == []


@pytest.mark.parametrize("name", [name for name in WAYS if name in FIRST_CALLS])
def test_a_bad_certificate_ends_every_way_to_keys(name: str, tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    _loop_is_quiet(logged)
    errors, server = _over_tls(tmp_path, name, "self-signed")
    assert {error.reason for error in errors} == {"network"}
    assert "certificate not trusted: self-signed certificate" in str(errors[0])
    assert server.heads == []


def _outcome(exporter_folder: Path, context: ssl.SSLContext, settings: Mapping[str, object] | None = None) -> str:
    """How the first call over TLS ends."""

    async def main() -> str:
        async with raw_server(JSON_OK, context) as server:
            exporter = build(exporter_folder, KINDS["pai: keys"], f"https://{server.address}", http=settings)
            try:
                await exporter.runners[0].tick()
                errors = exporter.runners[0].errors
                return str(errors[0]) if not server.heads else "connected"
            finally:
                await exporter.aclose()

    return run_stepped(main)


def test_environment_cannot_make_a_bad_certificate_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    _loop_is_quiet(logged)
    authority = Authority(tmp_path)
    good, settings = authority.server(), {"ca_file": str(authority.file)}
    assert _outcome(tmp_path, good, settings) == "connected"
    assert "not trusted" in _outcome(tmp_path, good)
    switches = {
        "PYTHONHTTPSVERIFY": "0",
        "CURL_CA_BUNDLE": "",
        "REQUESTS_CA_BUNDLE": str(authority.file),
        "SSL_NO_VERIFY": "1",
        "NODE_TLS_REJECT_UNAUTHORIZED": "0",
        "GIT_SSL_NO_VERIFY": "1",
        "AIOHTTP_NO_EXTENSIONS": "1",
    }
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    assert "not trusted" in _outcome(tmp_path, good)
    # The system's own switch for its authorities: it names roots and does not make anything unverified.
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert _outcome(tmp_path, good) == "connected"
    assert "not trusted" in _outcome(tmp_path, authority.server(host="other.test"))
    # A ca_file of the config stands in the place of all of them.
    other = Authority(tmp_path, "other")
    assert "not trusted" in _outcome(tmp_path, good, {"ca_file": str(other.file)})


@pytest.mark.parametrize("kind", [KINDS["pai: keys"], KINDS["modelarts: keys"]], ids=lambda kind: kind.cloud)
def test_plain_http_beyond_this_machine_is_asked_for(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build(tmp_path, kind, "http://cloud.test")
    refused = {fault.path for fault in caught.value.faults}
    assert {path.rpartition(".")[2] for path in refused} >= {"sts", "metadata"}
    assert len(refused) == (6 if kind.cloud == "pai" else 5)
    asyncio.run(build(tmp_path, kind, "http://cloud.test", http={"allow_plain_http": True}).aclose())
