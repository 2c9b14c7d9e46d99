"""A cloud is a table: every source of a third cloud, by requests that the engine makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.credentials.rig import MockClients, ask
from tests.providers.credentials.third_cloud import CREDENTIALS, FORMAT, Signed
from tests.support.clock import START, run_stepped
from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied, ServerTrouble, Throttled
from trainfleet_exporter.providers.credentials import (
    AssumedRole,
    Credential,
    FirstOf,
    GivenKeys,
    Issued,
    Keys,
    KeysUri,
    MachineRole,
    OidcRole,
    PasswordUser,
    ProfileFile,
    ProfileKeys,
    Source,
    open_credential,
)
from trainfleet_exporter.transport import Call
from trainfleet_exporter.transport.json_fields import iso_time

GIVEN = GivenKeys(Secret("id"), Secret("secret"))
URI = KeysUri("http://127.0.0.1:7", Secret("/keys?of=planted"), Secret("planted-authorization"))
UNTIL = START + 3600


class Services:
    """All services of the cloud. They count requests by path; `without` answer `status`."""

    def __init__(self, *without: str, status: int = 404) -> None:
        self.without = without
        self.status = status
        self.until = UNTIL
        self.asked: Counter[str] = Counter()
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked[path] += 1
        self.requests.append(request)
        if path in self.without:
            return httpx.Response(self.status)
        if path == "/token":
            return httpx.Response(200, text="session-token\n")
        if path == "/roles/":
            return httpx.Response(200, text="node")
        key = f"{path.rpartition('/')[2]}-{self.asked[path]}"
        keys = {"AccessKeyId": key, "SecretAccessKey": "s", "Token": "t", "Expiration": iso_time(self.until)}
        return httpx.Response(200, json=keys)


KEYS: dict[str, tuple[Source, str, list[str], str]] = {
    "machine": (MachineRole(), "node-1", ["/token", "/roles/", "/roles/node"], "metadata, role node"),
    "machine by name": (MachineRole("x/y"), "y-1", ["/token", "/roles/x%2Fy"], "metadata, role x/y"),
    "address": (URI, "keys-1", ["/keys"], "the credentials URI at http://127.0.0.1:7"),
    "role": (AssumedRole("r", GIVEN, Secret("ext")), "ext-1", ["/assume/ext"], "role r, with keys of the config file"),
    "role of a machine": (
        AssumedRole("r", AssumedRole("q", MachineRole("m"))),
        "-2",
        ["/token", "/roles/m", "/assume/", "/assume/"],
        "role r, with keys of role q, with keys of metadata, role m",
    ),
    "token": (
        OidcRole("r", Secret("jwt", source="environment")),
        "by-token-1",
        ["/by-token"],
        "web role r, with the token of the environment",
    ),
}


async def ready(source: Source, services: Services) -> tuple[Credential[Any], MockClients]:
    """The credential of a source after its first request."""
    clients = MockClients(services)
    credential = open_credential(source, CREDENTIALS, clients)
    await credential.prepare(asyncio.get_running_loop().time() + 20)
    return credential, clients


@pytest.mark.parametrize("kind", KEYS)
def test_keys_that_are_issued(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    source, key_id, paths, origin = KEYS[kind]
    services = Services()

    async def main() -> None:
        credential, clients = await ready(source, services)
        assert (credential.current(), credential.expires) == (Keys(key_id, "s", "t"), UNTIL)
        assert credential.origin == origin
        assert [request.url.raw_path.decode().partition("?")[0] for request in services.requests] == paths
        await credential.prepare(0)
        assert len(services.requests) == len(paths)
        assert "planted" not in repr(source) + repr(vars(credential)) + repr(vars(clients))

    with caplog.at_level(logging.INFO):
        run_stepped(main)
    assert f"valid until {iso_time(UNTIL)}" in caplog.messages[-1]
    assert caplog.messages[-1].startswith("p: keys of ")


def test_each_service_is_asked_in_its_own_form() -> None:
    services = Services()
    for source, *_ in KEYS.values():
        ask(source, CREDENTIALS, services)
    put, roles, node = services.requests[:3]
    assert (put.method, put.headers["x-ttl"], "x-token" in put.headers) == ("PUT", "21600", False)
    assert roles.headers["x-token"] == node.headers["x-token"] == "session-token"
    by_path = {request.url.path: request for request in services.requests}
    assert by_path["/keys"].url.query == b"of=planted"
    assert by_path["/keys"].headers["authorization"] == "planted-authorization"
    assert by_path["/assume/ext"].headers["key"] == "id/secret"
    assert by_path["/assume/"].headers["key"] == "-1/s/t"  # signed by the keys of the role before it
    assert by_path["/by-token"].content == b"jwt"
    assert by_path["/by-token"].headers["accept"] == "application/json"


def test_a_password_is_exchanged_for_a_token_of_any_type() -> None:
    user = PasswordUser("me", Secret("planted"), "account")
    services = Services()
    assert ask(user, CREDENTIALS, services) == Issued("t", UNTIL)
    credential = open_credential(user, CREDENTIALS, MockClients(services))
    assert credential.origin == "password of me, from the config file"


def test_a_token_of_a_file_is_read_at_each_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    uri = KeysUri("http://127.0.0.1:7", Secret("/keys"), Secret.from_file(path))
    services = Services()

    async def main() -> None:
        credential, _ = await ready(uri, services)
        path.write_text("second\n")
        await asyncio.sleep(3100)
        await credential.prepare(asyncio.get_running_loop().time() + 20)

    run_stepped(main)
    assert [request.headers["authorization"] for request in services.requests] == ["first", "second"]


def test_metadata_without_sessions_is_used_if_allowed() -> None:
    services = Services("/token")
    found = ask(MachineRole(), CREDENTIALS, services)
    assert isinstance(found, Issued)
    assert "x-token" not in services.requests[-1].headers
    refused = ask(MachineRole(needs_session=True), CREDENTIALS, services)
    assert refused == "PutToken: HTTP 404 the metadata service gives no tokens, and asking without one is disabled"


@pytest.mark.parametrize(
    ("name", "without", "reported"),
    [
        ("", "/roles/", "ListRoles: this machine has no role"),
        ("node", "/roles/node", "GetRole: this machine has no role node"),
    ],
)
def test_a_machine_without_the_role_is_refused(name: str, without: str, reported: str) -> None:
    assert ask(MachineRole(name), CREDENTIALS, Services(without)) == reported


def test_a_chain_stays_with_the_link_that_answered() -> None:
    services = Services("/roles/")
    chain = FirstOf((MachineRole(), URI), ("no variables",))

    async def main() -> None:
        credential = open_credential(chain, CREDENTIALS, MockClients(services))
        assert credential.origin == "metadata or the credentials URI at http://127.0.0.1:7"
        await credential.prepare(asyncio.get_running_loop().time() + 20)
        assert credential.origin == "the credentials URI at http://127.0.0.1:7"
        services.without = ()
        await asyncio.sleep(3500)
        await credential.prepare(asyncio.get_running_loop().time() + 20)
        assert services.asked["/keys"] == 2
        assert services.asked["/token"] == 1

    run_stepped(main)
    assert ask(chain, CREDENTIALS, Services("/roles/", "/keys")) == (
        "no credentials are configured, and none were found: no variables; metadata: this machine has no role; "
        "the credentials URI at http://127.0.0.1:7: refused"
    )


@pytest.mark.parametrize("status", [429, 503])
def test_a_passing_error_does_not_settle_a_chain(status: int) -> None:
    services = Services("/token", status=status)
    addresses = ["metadata, role node", "the credentials URI at http://127.0.0.1:7"]

    async def main() -> None:
        credential = open_credential(FirstOf((MachineRole(), URI)), CREDENTIALS, MockClients(services))
        # As soon as the first one answers, the chain stays with it.
        for failing, origin in (("/token", addresses[1]), ("/token", addresses[1]), ("", addresses[0]), ("/token", "")):
            services.without = (failing,)
            with contextlib.suppress(ServerTrouble, Throttled):
                await credential.prepare(asyncio.get_running_loop().time() + 20)
            assert credential.origin == (origin or addresses[0])
            await asyncio.sleep(3500)
            services.until += 3500

    run_stepped(main)
    assert services.asked["/keys"] == 2


def test_opening_a_source_sends_no_request_and_reads_no_file(tmp_path: Path) -> None:
    services = Services()
    missing = ProfileFile(tmp_path / "missing", "missing", FORMAT)
    others: list[Source] = [PasswordUser("me", Secret("x"), ""), ProfileKeys(missing, "p")]
    for source in (*others, *(kind[0] for kind in KEYS.values())):
        open_credential(source, CREDENTIALS, MockClients(services))
    assert services.requests == []


def test_endpoints_are_those_in_use() -> None:
    def endpoints(source: Source) -> dict[str, str]:
        clients = MockClients(Services())
        open_credential(source, CREDENTIALS, clients)
        return clients.endpoints

    assert endpoints(GIVEN) == {}
    assert endpoints(AssumedRole("r", GIVEN)) == {"sts": "http://sts.test"}
    assert endpoints(PasswordUser("me", Secret("x"), "")) == {"login": "http://login.test"}


def test_given_keys_are_fixed_or_follow_their_files(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("one")
    fixed = open_credential(GIVEN, CREDENTIALS, MockClients(Services()))
    mark = asyncio.run(fixed.prepare(0))
    assert (fixed.current(), fixed.expires, fixed.refused(mark)) == (Keys("id", "secret"), None, False)
    followed = open_credential(
        GivenKeys(Secret("id"), Secret.from_file(path), Secret("token", source="environment")),
        CREDENTIALS,
        MockClients(Services()),
    )
    assert followed.origin == f"config file, file {path}, environment"
    mark = asyncio.run(followed.prepare(0))
    assert followed.current() == Keys("id", "one", "token")
    assert not followed.refused(mark)
    path.write_text("other")
    assert followed.refused(mark)
    assert followed.current() == Keys("id", "other", "token")
    path.unlink()
    assert not followed.refused(asyncio.run(followed.prepare(0)))


def test_keys_of_a_profile_follow_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profiles"
    path.write_text("[team]\nid = a\nsecret = b\n")
    source = ProfileKeys(ProfileFile(path, "~/profiles", FORMAT), "team")
    credential = open_credential(source, CREDENTIALS, MockClients(Services()))
    mark = asyncio.run(credential.prepare(0))
    assert (credential.current(), credential.origin) == (Keys("a", "b"), "profile team of ~/profiles")
    path.write_text("[team]\nid = a2\nsecret = b2\n")
    assert credential.refused(mark)
    assert credential.current() == Keys("a2", "b2")


@pytest.mark.parametrize(("status", "again"), [(401, True), (403, False), (None, True)])
def test_only_refused_credentials_are_retried(status: int | None, again: bool) -> None:
    async def main() -> None:
        credential, _ = await ready(MachineRole(), Services())
        dialect = Signed("api", credential)
        mark = await dialect.prepare(Call(operation="Op", path="/"), 0)
        assert dialect.refused(AccessDenied("no", status=status), mark) is again

    run_stepped(main)
