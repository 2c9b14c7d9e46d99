"""One engine for the credentials of every cloud: makes a credential of a source, by the table of its cloud.

    GivenKeys, ProfileKeys ───────────────► a credential that follows its files
    MachineRole, KeysUri, FirstOf ────────► one that is requested near the machine, and refreshed
    AssumedRole, OidcRole, PasswordUser ──► one that is exchanged for another credential, and refreshed

To serve another cloud, write a `CredentialTable`. Nothing is requested and no file is read before the first call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.urls import is_link_local, is_loopback
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.providers.credentials.credential import Credential, FixedCredential, Issued, Keys
from trainfleet_exporter.providers.credentials.dialects import OpenDialect
from trainfleet_exporter.providers.credentials.files import FileCredential, RotatingFiles, read_secret
from trainfleet_exporter.providers.credentials.metadata import API as METADATA
from trainfleet_exporter.providers.credentials.metadata import AskKeys, Connect, Machine, MetadataService
from trainfleet_exporter.providers.credentials.refreshable import Refreshable, failure_of_all
from trainfleet_exporter.providers.credentials.sources import (
    AssumedRole,
    FirstOf,
    GivenKeys,
    KeySource,
    KeysUri,
    MachineRole,
    OidcRole,
    PasswordUser,
    ProfileKeys,
    Source,
)
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.transport_factory import open_direct_transport
from trainfleet_exporter.transport import ApiClient, Call, Dialect, Transport
from trainfleet_exporter.transport.json_fields import printable

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_IN_A_SENTENCE = {"config file": "the config file", "environment": "the environment"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialExchange(Generic[S_contra, T_co]):
    """The request for a temporary credential of an API. {name} in a text is the role or the user."""

    api: str
    ask: Callable[[ApiClient, S_contra, float], Awaitable[Issued[T_co]]]
    """Asks with the client, for a source, by a deadline (loop time). Raises CloudError."""
    origin: str
    logged: str
    margin: float
    """Seconds before its expiration at which the credential is refreshed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialTable(Generic[T_co]):
    """The implementation of each kind of source for one cloud. None if the cloud's config has no such source.

    A password is exchanged for T_co.
    """

    metadata: MetadataService
    chain_logged: str
    """Names the keys of a `FirstOf` in the log."""
    open: Callable[[str], Dialect]
    """Returns the dialect of requests without a credential, by the label `api`."""
    signed: Callable[[str, Credential[Keys]], Dialect] | None = None
    """Returns the dialect of requests with keys. `assume_role` needs it."""
    assume_role: CredentialExchange[AssumedRole, Keys] | None = None
    oidc: CredentialExchange[OidcRole, Keys] | None = None
    password: CredentialExchange[PasswordUser, T_co] | None = None
    uri: tuple[str, AskKeys] | None = None
    """The operation of an address that the operator names, and how it is asked. Its answers are judged as metadata."""
    read_profile: Callable[[ProfileKeys], Keys]
    """The keys that a profile has now. Raises AccessDenied."""


class CredentialClients:
    """The clients that credentials of one provider are requested with. `endpoint` returns the base URL of an API.

    `endpoints` are those in use, by their label `api`.
    """

    def __init__(
        self, provider: str, transport: Transport, context: BuildContext, endpoint: Callable[[str], str]
    ) -> None:
        self.provider = provider
        self.endpoints: dict[str, str] = {}
        self._transport = transport
        self._context = context
        self._endpoint = endpoint
        self._direct: Transport | None = None

    def client(self, api: str, dialect: Dialect) -> ApiClient:
        """A client of a cloud's API, by the provider's own transport."""
        self.endpoints[api] = self._endpoint(api)
        return self._transport.client(self.endpoints[api], dialect)

    def near(self, service: MetadataService, base_url: str = "") -> Connect:
        """Clients of the metadata service, or of another address of this machine, which no proxy could reach."""
        if self._direct is None:
            self._direct = open_direct_transport(
                self._context, connect_timeout=service.connect_seconds, request_timeout=service.request_seconds
            )
        base_url = base_url or self._endpoint(METADATA)
        self.endpoints.setdefault(METADATA, base_url)
        return partial(self._direct.client, base_url)

    def far(self, base_url: str) -> Connect:
        """Clients of an address that is not this machine's, by the provider's own transport."""
        return partial(self._transport.client, base_url)

    async def aclose(self) -> None:
        """Close the direct connections. The transport is the provider's to close."""
        if self._direct is not None:
            await self._direct.aclose()


def open_credential(source: Source, table: CredentialTable[T], clients: CredentialClients) -> Credential[Keys | T]:
    """The credential of a source."""
    opener = _Opener(table, clients)
    if isinstance(source, PasswordUser):
        return opener.exchange(table.password, source, source.name, "from", source.password)
    return opener.keys(source)


@dataclass(frozen=True, slots=True)
class _Link:
    """One place that is asked for keys."""

    fetch: Callable[[float], Awaitable[Issued[Keys]]]
    origin: Callable[[], str]


class _Opener:
    def __init__(self, table: CredentialTable[Any], clients: CredentialClients) -> None:
        self._table = table
        self._clients = clients

    def keys(self, source: KeySource) -> Credential[Keys]:
        table = self._table
        match source:
            case GivenKeys():
                return _given(source)
            case ProfileKeys():
                files = RotatingFiles([source.file.path], lambda path: table.read_profile(source))
                origin = f"profile {printable(source.profile, 64)} of {source.file.shown}"
                return FileCredential(origin, files, lambda found: found[0])
            case AssumedRole():
                return self.exchange(table.assume_role, source, source.role, "with keys of", self.keys(source.base))
            case OidcRole():
                return self.exchange(table.oidc, source, source.role, "with the token of", source.token)
        return self._asked(source)

    def exchange(
        self, row: CredentialExchange[S, T] | None, source: S, name: str, words: str, given: Secret | Credential[Keys]
    ) -> Credential[T]:
        """A temporary credential for what is given: keys, or the secret that the request carries."""
        table = self._table
        assert row is not None
        if isinstance(given, Secret):
            dialect = table.open(row.api)
        else:
            assert table.signed is not None
            dialect = table.signed(row.api, given)
        client = self._clients.client(row.api, dialect)

        async def fetch(deadline: float) -> Issued[T]:
            return await row.ask(client, source, deadline)

        def origin() -> str:
            whose = given.source if isinstance(given, Secret) else given.origin
            return f"{row.origin.format(name=name)}, {words} {_IN_A_SENTENCE.get(whose, whose)}"

        return Refreshable(
            row.logged.format(name=name),
            fetch,
            margin=row.margin,
            provider=self._clients.provider,
            origin=origin,
            basis=given.now if isinstance(given, Secret) else lambda: given.edition,
        )

    def _asked(self, source: MachineRole | KeysUri | FirstOf) -> Credential[Keys]:
        """A chain stays with the link that answers first, unless a passing error kept a link before it from answering:
        then the next refresh begins with the first link again. If no link answers, the error says why."""
        table, is_chain = self._table, isinstance(source, FirstOf)
        chain = source if isinstance(source, FirstOf) else FirstOf((source,))
        links = [self._link(each) for each in chain.links]
        in_use = [] if is_chain else links[:]
        is_settled = not is_chain

        async def fetch(deadline: float) -> Issued[Keys]:
            nonlocal is_settled
            if is_settled:
                return await in_use[0].fetch(deadline)
            reasons, failures = list(chain.passed), list[CloudError]()
            for link in links:
                try:
                    keys = await link.fetch(deadline)
                except CloudError as error:
                    reasons.append(f"{link.origin()}: {error.message}")
                    failures.append(error)
                else:
                    in_use[:] = [link]
                    is_settled = not any(error.transient for error in failures)
                    return keys
            raise failure_of_all(failures, f"no credentials found: {'; '.join(reasons)}")

        return Refreshable(
            table.chain_logged if is_chain else table.metadata.logged,
            fetch,
            margin=table.metadata.margin,
            provider=self._clients.provider,
            origin=lambda: " or ".join(link.origin() for link in in_use or links),
        )

    def _link(self, source: MachineRole | KeysUri) -> _Link:
        table, clients = self._table, self._clients
        if isinstance(source, MachineRole):
            machine = Machine(table.metadata, clients.near(table.metadata), source)
            return _Link(machine.fetch, lambda: machine.origin)
        assert table.uri is not None
        operation, ask = table.uri
        token = None if source.authorization is None else ("Authorization", source.authorization)
        dialect = OpenDialect(METADATA, table.metadata.judge, token=token, target=source.target)
        # The machine and its own network are reached without the proxy.
        is_near = is_loopback(source.base_url) or is_link_local(source.base_url)
        connect = clients.near(table.metadata, source.base_url) if is_near else clients.far(source.base_url)
        client, call = connect(dialect), Call(operation=operation, path="/")
        return _Link(lambda deadline: ask(client, call, deadline), lambda: f"the credentials URI at {source.base_url}")


def _given(given: GivenKeys) -> Credential[Keys]:
    parts = [part for part in (given.access_key_id, given.access_key_secret, given.security_token) if part is not None]
    origin = ", ".join(dict.fromkeys(part.source for part in parts))
    paths = [part.path for part in parts if part.path is not None]

    def assemble(read: tuple[Secret, ...]) -> Keys:
        of_files = iter(read)
        return Keys(*((part if part.path is None else next(of_files)).reveal() for part in parts))

    if not paths:
        return FixedCredential(origin, assemble(()))
    return FileCredential(origin, RotatingFiles(paths, read_secret), assemble)
