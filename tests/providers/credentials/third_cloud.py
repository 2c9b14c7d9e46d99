"""A third cloud, which the engine does not know: a table with one row of each kind, and the dialect of its API."""

from __future__ import annotations

from msgspec import Struct, field

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.providers.credentials import (
    AssumedRole,
    CredentialExchange,
    CredentialTable,
    Issued,
    Keys,
    MetadataService,
    OidcRole,
    OpenDialect,
    PasswordUser,
    ProfileFormat,
    ProfileKeys,
    SignedDialect,
    issued_keys,
    parse_ini,
)
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest


class Answer(Struct, rename="pascal"):
    """What each of its services returns."""

    access_key_id: str | None = None
    access_key_secret: str | None = field(name="SecretAccessKey", default=None)
    security_token: str | None = field(name="Token", default=None)
    expiration: str | None = None


def judge(answer: HttpAnswer) -> CloudError | None:
    """By the HTTP status alone."""
    status = answer.status
    kinds = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 429: Throttled}
    if status in kinds:
        return kinds[status]("refused", status=status)
    if status >= 400:
        return (ServerTrouble if status >= 500 else RequestRefused)("failed", status=status)
    return None


class Signed(SignedDialect[Keys]):
    """Sends the parts of the keys as they are."""

    def sign(self, call: Call, host: str) -> SignedRequest:
        keys = self.credential.current()
        headers = {"host": host, "key": "/".join((keys.access_key_id, keys.access_key_secret, *keys.quotable()[1:]))}
        return SignedRequest(call.method, call.path, headers, call.body, keys.quotable())

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)

    def blames_credential(self, error: AccessDenied) -> bool:
        return error.status == 401


async def read(client: ApiClient, call: Call, deadline: float) -> Issued[Keys]:
    """Make a call that returns keys."""
    answer = await client.call(call, Answer, deadline=deadline)
    return issued_keys(answer, call.operation, incomplete="incomplete", expired="ended at {ended}")


async def _assume(client: ApiClient, role: AssumedRole, deadline: float) -> Issued[Keys]:
    external_id = "" if role.external_id is None else role.external_id.reveal()
    return await read(client, Call(operation="Assume", path=f"/assume/{external_id}", method="POST"), deadline)


async def _by_token(client: ApiClient, role: OidcRole, deadline: float) -> Issued[Keys]:
    body = role.token.reveal().encode()
    return await read(client, Call(operation="AssumeByToken", path="/by-token", method="POST", body=body), deadline)


async def _by_password(client: ApiClient, user: PasswordUser, deadline: float) -> Issued[str]:
    body = user.password.reveal().encode()
    keys = await read(client, Call(operation="LogIn", path="/log-in", method="POST", body=body), deadline)
    return Issued(keys.value.security_token or "", keys.expires)


def _read_profile(source: ProfileKeys) -> Keys:
    section = source.file.read().get(source.profile)
    if section is None:
        raise source.file.denied("no such section")
    return Keys(section["id"], section["secret"])


FORMAT = ProfileFormat(parse_ini, invalid=lambda error: "it is no INI file")
CREDENTIALS: CredentialTable[str] = CredentialTable(
    open=lambda api: OpenDialect(api, judge, lambda call: {"accept": "application/json"}),
    signed=Signed,
    assume_role=CredentialExchange(api="sts", ask=_assume, origin="role {name}", logged="keys of {name}", margin=600),
    oidc=CredentialExchange(api="sts", ask=_by_token, origin="web role {name}", logged="keys of {name}", margin=600),
    password=CredentialExchange(
        api="login", ask=_by_password, origin="password of {name}", logged="tokens of {name}", margin=60
    ),
    metadata=MetadataService(
        session=("PutToken", "/token"),
        seconds_header="x-ttl",
        session_header="x-token",
        without_sessions=(403, 404),
        roles=("ListRoles", "/roles/"),
        keys=("GetRole", "/roles/"),
        ask=read,
        judge=judge,
        judge_session=judge,
        no_role=lambda role: AccessDenied(f"this machine has no role {role}".rstrip()),
        origin="metadata",
        logged="keys of the machine",
        margin=600,
    ),
    uri=("GetContainerKeys", read),
    chain_logged="keys of the chain",
    read_profile=_read_profile,
)
