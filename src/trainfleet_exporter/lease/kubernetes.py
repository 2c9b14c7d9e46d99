"""The lease: an object of Kubernetes (`coordination.k8s.io/v1` Lease), by the pod's own service account.

The API server rejects a write whose `resourceVersion` is not the present one (409). The time in the object is for
people: no exporter reads it. No response is trusted: its size and its fields have limits, and an error quotes it
redacted and cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
from msgspec import Meta

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable, StartError
from trainfleet_exporter.process.redaction import LONGEST, redact, remember
from trainfleet_exporter.transport import HttpSettings
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DURATION = 10.0
"""Seconds without a change after which another exporter takes the lease."""
_API = "/apis/coordination.k8s.io/v1/namespaces"
_GONE = (404, 410)
_CONFLICT = 409
_LONGEST_ERROR = 300
_LONGEST_HOLDER = 200
_LONGEST_BODY = 512 * 1024
"""Bytes. Kubernetes allows 256 KiB of annotations on an object."""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: Annotated[str, Meta(min_length=1, max_length=128)]


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: Annotated[int, Meta(ge=0, lt=2**31 - 1)] | None = None  # the next one must fit an int32


class _LeaseObject(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _ApiStatus(msgspec.Struct):
    message: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A lease as it was read or written."""

    holder: str = ""
    """The identity of the exporter that polls, cut to 200 characters; empty if the lease was released, or never
    held."""
    term: int = 0
    """How many times exporters have begun to hold it; 0 if the record is new."""
    version: str = ""
    """Different after each write; empty if there is no record."""


class KubernetesLease:
    """The Lease `name` in a namespace. Calls may take any time: the caller limits it by cancelling them.

    `token` is called for each request, because Kubernetes renews the token. `connect` is called again after a failed
    connection, because Kubernetes may replace the authorities that it reads; it may raise StartError.
    """

    def __init__(
        self,
        name: str,
        *,
        server: str,
        namespace: str,
        token: Callable[[], str],
        connect: Callable[[], httpx.AsyncBaseTransport],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._namespace = namespace
        self._url = f"{server}{_API}/{namespace}/leases"
        self._token = token
        self._connect = connect
        self._wall = wall
        self._transport: httpx.AsyncBaseTransport | None = None

    async def read(self) -> Record:
        """Read the record. LeaseUnavailable if that is not possible."""
        status, body = await self._request("GET", f"{self._url}/{self._name}")
        return Record() if status in _GONE else self._record(status, body)

    async def create(self) -> Record:
        """Make a record without a holder, and return it. LeaseConflict if there is one."""
        return await self._write("POST", self._url, Record())

    async def write(self, seen: Record, holder: str, term: int, *, dry_run: bool = False) -> Record:
        """Replace the record `seen` and return the new one. LeaseConflict if it is another one by now.

        After LeaseUnavailable, or if the call is cancelled, it may have been replaced or may still be. A `dry_run`
        changes nothing, and fails where a write would.
        """
        url = f"{self._url}/{self._name}" + ("?dryRun=All" if dry_run else "")
        return await self._write("PUT", url, Record(holder, term, seen.version))

    async def aclose(self) -> None:
        """Close connections."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _write(self, method: str, url: str, record: Record) -> Record:
        status, body = await self._request(method, url, msgspec.json.encode(self._object(record)))
        if status == _CONFLICT or (method == "PUT" and status in _GONE):
            raise LeaseConflict(f"the API server: HTTP {status}: another client has written the lease {self._name}")
        return self._record(status, body)

    def _object(self, record: Record) -> dict[str, object]:
        now = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = {"name": self._name, "namespace": self._namespace}
        spec: dict[str, object] = {"leaseDurationSeconds": int(DURATION), "leaseTransitions": record.term}
        if record.holder:
            spec |= {"holderIdentity": record.holder, "renewTime": now}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata | ({"resourceVersion": record.version} if record.version else {}),
            "spec": spec,
        }

    async def _request(self, method: str, url: str, content: bytes = b"") -> tuple[int, bytes]:
        """Status and body of a response; LeaseUnavailable without one."""
        headers = {"authorization": f"Bearer {self._read_token()}", "accept": "application/json"}
        if content:
            headers["content-type"] = "application/json"
        try:
            request = httpx.Request(method, url, headers=headers, content=content or None)
            if self._transport is None:
                self._transport = self._connect()
            response = await self._transport.handle_async_request(request)
            try:
                return response.status_code, await _body(response)
            finally:
                await response.aclose()
        except httpx.ConnectError as error:
            await self.aclose()
            raise _unavailable("network", f"the API server: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unavailable("network", f"the API server: {error}") from None
        except StartError as error:
            raise _unavailable("authorities", str(error)) from None
        except ValueError as error:  # its text may have the token
            raise _unavailable("request", f"the request is not valid: {type(error).__name__}") from None

    def _read_token(self) -> str:
        try:
            token = self._token()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise _unavailable("token", f"the token of the service account: {reason}") from None
        remember(token)
        return token

    def _record(self, status: int, body: bytes) -> Record:
        if not 200 <= status < 300:
            raise _unavailable(f"HTTP {status}", f"the API server: HTTP {status} {_message(body)}".rstrip())
        try:
            found = msgspec.json.decode(body, type=_LeaseObject)
        except msgspec.ValidationError as error:
            raise _unavailable("lease", f"the lease {self._name} is not valid: {error}; delete it") from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise _unavailable("body", f"the API server: HTTP {status}, and the answer is not a Lease") from None
        holder = (found.spec.holder_identity or "")[:_LONGEST_HOLDER]
        return Record(holder, found.spec.lease_transitions or 0, found.metadata.resource_version)


def in_cluster(name: str, environ: Mapping[str, str]) -> KubernetesLease:
    """A lease by the service account of the pod. StartError where the process is not in a pod, or has no account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise StartError("--lease=kubernetes: KUBERNETES_SERVICE_HOST is not set; use it only in a pod of Kubernetes")
    try:
        namespace = (ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        (ACCOUNT / "token").read_bytes()
    except OSError as error:
        raise StartError(
            f"--lease=kubernetes: {ACCOUNT}: {error.strerror}; the pod needs automountServiceAccountToken: true"
        ) from None
    settings = HttpSettings(ca_file=ACCOUNT / "ca.crt", connect_timeout=2, request_timeout=3, trust_env=False)
    AiohttpTransport(settings)  # an unusable ca.crt is an error of the start
    return KubernetesLease(
        name,
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        token=lambda: (ACCOUNT / "token").read_text(encoding="utf-8").strip(),
        connect=lambda: AiohttpTransport(settings),
    )


async def _body(response: httpx.Response) -> bytes:
    """The body as it was sent, which is not compressed: no request accepts that."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    body = bytearray()
    async for chunk in response.stream:
        body += chunk
        if len(body) > _LONGEST_BODY:
            raise _unavailable("size", f"the API server: the response is over {_LONGEST_BODY // 1024} KiB")
    return bytes(body)


def _message(body: bytes) -> str:
    """Why the API server rejects a request, in its own words."""
    try:
        return msgspec.json.decode(body, type=_ApiStatus).message[:LONGEST]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def _unavailable(kind: str, text: str) -> LeaseUnavailable:
    return LeaseUnavailable(redact(text)[:_LONGEST_ERROR], kind=kind)
