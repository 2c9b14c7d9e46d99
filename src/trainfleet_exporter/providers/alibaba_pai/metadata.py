"""Keys of a machine's RAM role, from its metadata service; and keys from an address of the operator's own.

The service is plain HTTP on an address that every machine of the cloud has for itself. It hands out a token first, and
keys only with one; an old one gives none (404, 403) and may be asked without. The keys are renewed by the service.

https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
"""

from __future__ import annotations

import re
from urllib.parse import quote

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    RequestRefused,
    ServerTrouble,
    Throttled,
)
from trainfleet_exporter.providers.alibaba_pai.credentials import Keys, leased_keys
from trainfleet_exporter.providers.alibaba_pai.sources import MachineRole
from trainfleet_exporter.providers.lease import Leased
from trainfleet_exporter.quantities import number, printable, text
from trainfleet_exporter.transport import ApiClient, Call, HttpAnswer, SignedRequest, TextForm

API = "metadata"
_TOKEN_SECONDS = "21600"  # noqa: S105 - the longest life of a token
_ROLES = "/latest/meta-data/ram/security-credentials/"
_A_TOKEN = TextForm("a token", re.compile(r"[!-~]{1,4096}"))
_A_CODE = re.compile(r"[A-Za-z]{1,15}(?:[. -][A-Za-z]{1,15}){0,3}")
_A_ROLE = TextForm("the name of a role", re.compile(r"[A-Za-z0-9._-]{1,64}"))


class MetadataDialect:
    """How the metadata service, or an address of the operator's own, is asked (transport.Dialect).

    `target` takes the place of every call's path (it can hold secrets); `token` goes along once there is one.
    """

    api = API

    def __init__(self, target: str = "") -> None:
        # Secrets, so that whatever shows this object does not show them.
        self._target = Secret(target)
        self.token = Secret("")

    async def prepare(self, call: Call, deadline: float) -> object:
        return None

    def refused(self, error: AccessDenied, mark: object) -> bool:
        return False

    def sign(self, call: Call, host: str) -> SignedRequest:
        headers = {"host": host}
        if call.method == "PUT":
            headers["X-aliyun-ecs-metadata-token-ttl-seconds"] = _TOKEN_SECONDS
        elif token := self.token.reveal():
            headers["X-aliyun-ecs-metadata-token"] = token
        target = self._target.reveal() or call.path
        return SignedRequest(call.method, target, headers, call.body, (self.token.reveal(), self._target.reveal()))

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """By its HTTP status alone: the bodies of errors are pages."""
        status = answer.status
        if status in (401, 403):
            return AccessDenied("the service refuses to answer", status=status)
        if status == 404:
            return NotFound("not served", status=status)
        if status == 429:
            wait = number({"s": answer.headers.get("retry-after", "")}, "s")
            return Throttled("too many requests", status=status, retry_after=wait)
        if status >= 500:
            return ServerTrouble("the service failed", status=status)
        return RequestRefused("the request was refused", status=status) if status >= 400 else None


class Machine:
    """The metadata service, asked for one role. `dialect` is that of `client`; `role` is the name last answered."""

    def __init__(self, client: ApiClient, dialect: MetadataDialect, wanted: MachineRole) -> None:
        self._client = client
        self._dialect = dialect
        self._wanted = wanted
        self.role = wanted.name

    async def fetch(self, deadline: float) -> Leased[Keys]:
        """The keys that the machine has now, by `deadline` (loop time). Raises CloudError."""
        self._dialect.token = Secret(await self._token(deadline))
        role = self._wanted.name or await self._find_role(deadline)
        call = Call(operation="GetRamRoleCredentials", path=_ROLES + quote(role, safe=""))
        try:
            answer = await self._client.call(call, deadline=deadline)
        except NotFound:
            raise AccessDenied(f"this machine has no RAM role {role}", operation=call.operation) from None
        keys = _keys_of(answer, call)
        self.role = role
        return keys

    async def _token(self, deadline: float) -> str:
        """A token; empty where the service knows none, and may be asked without."""
        call = Call(operation="PutToken", path="/latest/api/token", method="PUT", text=_A_TOKEN)
        try:
            answer = await self._client.call(call, deadline=deadline)
        except (AccessDenied, NotFound) as error:
            if error.status not in (403, 404):
                raise
            if not self._wanted.allow_v1:
                message = "the metadata service gives no tokens, and asking without one is disabled"
                raise AccessDenied(message, operation=call.operation, status=error.status) from None
            return ""
        return str(answer)

    async def _find_role(self, deadline: float) -> str:
        call = Call(operation="ListRamRoles", path=_ROLES, text=_A_ROLE)
        try:
            answer = await self._client.call(call, deadline=deadline)
        except NotFound:
            raise AccessDenied("this machine has no RAM role", operation=call.operation) from None
        return str(answer)


async def fetch_from_uri(client: ApiClient, deadline: float) -> Leased[Keys]:
    """The keys that the operator's own address gives. Raises CloudError."""
    call = Call(operation="GetCredentialsUri", path="/")
    return _keys_of(await client.call(call, deadline=deadline), call)


def _keys_of(answer: object, call: Call) -> Leased[Keys]:
    told = answer if isinstance(answer, dict) else {}
    code = text(told, "Code")
    if code != "Success":
        # A code is a word. Anything else could quote the request, or be a key in a wrong place.
        is_word = _A_CODE.fullmatch(code.strip()) is not None
        shown = printable(code, 40) if is_word else "another code" if code else "no code"
        raise AccessDenied(f"no keys, but {shown}", operation=call.operation)
    return leased_keys(told, call.operation)
