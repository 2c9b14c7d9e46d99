"""A lease as an object of Kubernetes: `coordination.k8s.io/v1` Lease, by the pod's own service account.

The API server rejects a write whose `resourceVersion` is not the present one (409). The time in the object is for
people: no exporter reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable, StartError
from trainfleet_exporter.lease.elector import DURATION
from trainfleet_exporter.lease.record import Record
from trainfleet_exporter.transport import HttpSettings
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_API = "/apis/coordination.k8s.io/v1/namespaces"
_GONE = (404, 410)
_CONFLICT = 409
_LONGEST_ERROR = 300


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: int | None = None


class _LeaseObject(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _ApiStatus(msgspec.Struct):
    message: str = ""


class KubernetesLease:
    """The Lease `name` in a namespace. `token` is read for each request, because Kubernetes renews it."""

    def __init__(
        self,
        name: str,
        *,
        server: str,
        namespace: str,
        token: Callable[[], str],
        send: httpx.AsyncBaseTransport,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._namespace = namespace
        self._url = f"{server}{_API}/{namespace}/leases"
        self._token = token
        self._send = send
        self._wall = wall

    async def read(self) -> Record:
        """Read the record (see LeaseStore)."""
        status, body = await self._request("GET", f"{self._url}/{self._name}")
        return Record() if status in _GONE else self._record(status, body)

    async def create(self) -> None:
        """Make a record without a holder (see LeaseStore)."""
        await self._write("POST", self._url, Record())

    async def write(self, seen: Record, holder: str, term: int) -> Record:
        """Replace the record (see LeaseStore)."""
        return await self._write("PUT", f"{self._url}/{self._name}", Record(holder, term, seen.version))

    async def aclose(self) -> None:
        """Close connections."""
        await self._send.aclose()

    async def _write(self, method: str, url: str, record: Record) -> Record:
        status, body = await self._request(method, url, msgspec.json.encode(self._object(record)))
        if status == _CONFLICT or (method == "PUT" and status in _GONE):
            raise LeaseConflict(f"the lease {self._name}: another exporter has written it")
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
        """Status and body of an answer; LeaseUnavailable without one."""
        try:
            headers = {"authorization": f"Bearer {self._token()}", "accept": "application/json"}
        except OSError as error:
            raise LeaseUnavailable(f"the token of the service account: {error.strerror}") from None
        except ValueError:
            raise LeaseUnavailable("the token of the service account: it is not text") from None
        if content:
            headers["content-type"] = "application/json"
        try:
            answer = await self._send.handle_async_request(
                httpx.Request(method, url, headers=headers, content=content or None)
            )
            try:
                return answer.status_code, await answer.aread()
            finally:
                await answer.aclose()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LeaseUnavailable(f"the API server: {error}") from None
        except ValueError as error:  # its text may have the token
            raise LeaseUnavailable(f"the API server: the request is not valid: {type(error).__name__}") from None

    def _record(self, status: int, body: bytes) -> Record:
        if not 200 <= status < 300:
            raise LeaseUnavailable(f"the API server: HTTP {status} {_message(body)}".rstrip())
        try:
            found = msgspec.json.decode(body, type=_LeaseObject)
        except msgspec.MsgspecError:
            raise LeaseUnavailable(f"the API server: HTTP {status}, and the answer is not a Lease") from None
        spec = found.spec
        return Record(spec.holder_identity or "", spec.lease_transitions or 0, found.metadata.resource_version)


class _ClusterTransport(httpx.AsyncBaseTransport):
    """Connects to servers that the authorities in a file vouch for. After a failed connection it reads the file again,
    because Kubernetes may replace it. StartError for an unusable file.
    """

    def __init__(self, ca_file: Path) -> None:
        self._ca_file = ca_file
        self._open()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._send.handle_async_request(request)
        except httpx.ConnectError:
            before = self._send
            with suppress(OSError, StartError):
                if self._ca_file.read_bytes() != self._ca:
                    self._open()
                    await before.aclose()
            raise

    async def aclose(self) -> None:
        await self._send.aclose()

    def _open(self) -> None:
        settings = HttpSettings(ca_file=self._ca_file, connect_timeout=2, request_timeout=3, trust_env=False)
        self._send = AiohttpTransport(settings)
        self._ca = self._ca_file.read_bytes()


def in_cluster(name: str, environ: Mapping[str, str], account: Path = ACCOUNT) -> KubernetesLease:
    """A lease by the service account of the pod. StartError where the process is not in a pod, or has no account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise StartError("--lease=kubernetes: KUBERNETES_SERVICE_HOST is not set; use it only in a pod of Kubernetes")
    try:
        namespace = (account / "namespace").read_text(encoding="utf-8").strip()
        (account / "token").read_text(encoding="utf-8")
    except OSError as error:
        raise StartError(
            f"--lease=kubernetes: {account}: {error.strerror}; the pod needs automountServiceAccountToken: true"
        ) from None
    return KubernetesLease(
        name,
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        token=lambda: (account / "token").read_text(encoding="utf-8").strip(),
        send=_ClusterTransport(account / "ca.crt"),
    )


def _message(body: bytes) -> str:
    """Why the API server rejects a request, in its own words."""
    try:
        return msgspec.json.decode(body, type=_ApiStatus).message[:_LONGEST_ERROR]
    except msgspec.MsgspecError:
        return ""
