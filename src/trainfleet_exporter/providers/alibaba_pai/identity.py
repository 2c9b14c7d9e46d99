"""From what is known of the keys to a source of them that renews itself, and what it is reached by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.urls import is_loopback
from trainfleet_exporter.errors import CloudError
from trainfleet_exporter.providers.alibaba_pai import metadata, sts
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.alibaba_pai.credentials import (
    MARGIN,
    Credentials,
    FileKeys,
    Keys,
    KeySource,
    LeasedKeys,
)
from trainfleet_exporter.providers.alibaba_pai.dialect import PaiDialect
from trainfleet_exporter.providers.alibaba_pai.profiles import ProfileFile
from trainfleet_exporter.providers.alibaba_pai.sources import (
    DURATION,
    AssumedRole,
    FirstOf,
    GivenKeys,
    KeysUri,
    MachineRole,
    OidcRole,
    ProfileKeys,
    Source,
)
from trainfleet_exporter.providers.key_files import KeyFiles, follow_secret
from trainfleet_exporter.providers.lease import Lease, Leased, failure_of_all
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.way_out import open_direct_transport
from trainfleet_exporter.transport import ApiClient, Dialect, Transport

_CONNECT_SECONDS, _REQUEST_SECONDS = 1.0, 5.0
"""How long a metadata service may take: it is near, or it is not there."""
_OF_STS = ("AssumeRole", "AssumeRoleWithOIDC", "GetCredentialsUri")
_OF_THE_MACHINE = ("PutToken", "ListRamRoles", "GetRamRoleCredentials")
KEPT: Mapping[str, float] = {
    **dict.fromkeys(_OF_STS, DURATION - MARGIN),
    **dict.fromkeys(_OF_THE_MACHINE, 6 * 3600 - MARGIN),
}
"""Seconds for which what an operation answers is kept, as a rule."""

_Fetch: TypeAlias = Callable[[float], Awaitable[Leased[Keys]]]
_IN_A_SENTENCE = {"config file": "the config file", "environment": "the environment"}


@dataclass(frozen=True, slots=True)
class _Link:
    """Something that can be asked for keys. `origin` says in words what answered."""

    fetch: _Fetch
    origin: Callable[[], str]


class Ways:
    """How STS and what is near are reached. Connections to the latter are made only where they are needed.

    `near` opens a transport that uses no proxy; `provider` names whose keys they are, in the log.
    """

    def __init__(
        self, provider: str, transport: Transport, near: Callable[[], Transport], *, sts_url: str, metadata_url: str
    ) -> None:
        self.provider = provider
        self.transport = transport
        self.sts_url = sts_url
        self.metadata_url = metadata_url
        self.endpoints: dict[str, str] = {}
        """The base URL of each API that is asked for keys, by its label `api`."""
        self._open_near = near
        self._near: Transport | None = None

    def sts(self, dialect: Dialect) -> ApiClient:
        """A client for STS."""
        self.endpoints[sts.API] = self.sts_url
        return self.transport.client(self.sts_url, dialect)

    def metadata(self, dialect: Dialect, base_url: str = "") -> ApiClient:
        """A client for the machine's metadata service, or for another address of this machine's."""
        if self._near is None:
            self._near = self._open_near()
        self.endpoints.setdefault(metadata.API, base_url or self.metadata_url)
        return self._near.client(base_url or self.metadata_url, dialect)

    async def aclose(self) -> None:
        """Close what was opened here, which the provider's own transport is not."""
        if self._near is not None:
            await self._near.aclose()


def ways_of(config: AlibabaPaiConfig, transport: Transport, context: BuildContext) -> Ways:
    """The ways of one provider."""
    return Ways(
        config.name,
        transport,
        partial(open_direct_transport, context, connect_timeout=_CONNECT_SECONDS, request_timeout=_REQUEST_SECONDS),
        sts_url=config.endpoint("sts"),
        metadata_url=config.endpoint("metadata"),
    )


def open_source(source: Source, ways: Ways) -> KeySource:
    """The keys of a source, ready to be prepared and used."""
    match source:
        case GivenKeys():
            return _given(source)
        case ProfileKeys():
            return _of_profile(source)
        case AssumedRole():
            return _assumed(source, ways)
        case OidcRole():
            return _by_oidc(source, ways)
        case FirstOf():
            return _first_of(source, ways)
    link = _link(source, ways)
    what = "the machine's RAM role" if isinstance(source, MachineRole) else "the credentials URI"
    return LeasedKeys(link.origin, Lease(f"{ways.provider}: keys of {what}", link.fetch, margin=MARGIN))


def _given(given: GivenKeys) -> KeySource:
    parts = (given.access_key_id, given.access_key_secret, given.security_token)
    origin = ", ".join(dict.fromkeys(part.source for part in parts if part is not None))
    paths = [part.path for part in parts if part is not None and part.path is not None]

    def assemble(read: tuple[Secret, ...]) -> Keys:
        of_files = iter(read)

        def text(secret: Secret) -> str:
            return (secret if secret.path is None else next(of_files)).reveal()

        key_id, secret = text(given.access_key_id), text(given.access_key_secret)
        return Keys(key_id, secret, None if given.security_token is None else text(given.security_token))

    if not paths:
        keys = assemble(())
        return Credentials(origin, lambda: keys)
    return FileKeys(origin, KeyFiles(paths, follow_secret), assemble)


def _of_profile(profile: ProfileKeys) -> KeySource:
    file = ProfileFile(profile.file, profile.shown, is_json=profile.is_json)

    def read(path: Path) -> Keys:
        return file.keys(profile.profile, profile.mode)

    return FileKeys(file.name_of(profile.profile), KeyFiles([profile.file], read), lambda found: found[0])


def _assumed(role: AssumedRole, ways: Ways) -> KeySource:
    base = open_source(role.base, ways)
    client = ways.sts(PaiDialect(sts.API, sts.VERSION, base))

    async def fetch(deadline: float) -> Leased[Keys]:
        return await sts.assume_role(client, role, deadline)

    def origin() -> str:
        return f"STS role {role.role_arn}, with keys of {_IN_A_SENTENCE.get(base.origin, base.origin)}"

    what = f"{ways.provider}: STS keys of {role.role_arn}"
    return LeasedKeys(origin, Lease(what, fetch, margin=MARGIN, basis=lambda: base.edition))


def _by_oidc(role: OidcRole, ways: Ways) -> KeySource:
    client = ways.sts(sts.OpenStsDialect())

    async def fetch(deadline: float) -> Leased[Keys]:
        return await sts.assume_role_with_oidc(client, role, deadline)

    what = f"{ways.provider}: STS keys of {role.role_arn}"
    origin = f"OIDC role {role.role_arn}, with the token of {_IN_A_SENTENCE.get(role.token.source, role.token.source)}"
    return LeasedKeys(lambda: origin, Lease(what, fetch, margin=MARGIN, basis=role.token.now))


def _first_of(chain: FirstOf, ways: Ways) -> KeySource:
    """Stays with the link that answered; before that, says of each why it had nothing."""
    links = [_link(source, ways) for source in chain.links]
    answered: list[_Link] = []

    async def fetch(deadline: float) -> Leased[Keys]:
        if answered:
            return await answered[0].fetch(deadline)
        reasons = list(chain.passed)
        failures: list[CloudError] = []
        for link in links:
            try:
                keys = await link.fetch(deadline)
            except CloudError as error:
                reasons.append(f"{link.origin()}: {error.message}")
                failures.append(error)
            else:
                answered.append(link)
                return keys
        raise failure_of_all(failures, f"no credentials are configured, and none were found: {'; '.join(reasons)}")

    def origin() -> str:
        return answered[0].origin() if answered else " or ".join(link.origin() for link in links)

    return LeasedKeys(origin, Lease(f"{ways.provider}: keys of the default chain", fetch, margin=MARGIN))


def _link(source: MachineRole | KeysUri, ways: Ways) -> _Link:
    if isinstance(source, MachineRole):
        dialect = metadata.MetadataDialect()
        machine = metadata.Machine(ways.metadata(dialect), dialect, source)
        return _Link(machine.fetch, lambda: f"ECS metadata, role {machine.role}" if machine.role else "ECS metadata")
    # What is on this machine is reached directly, whatever the proxy; what is not, as everything else is.
    uri = metadata.MetadataDialect(source.target)
    is_near = is_loopback(source.base_url)
    client = ways.metadata(uri, source.base_url) if is_near else ways.transport.client(source.base_url, uri)

    async def fetch(deadline: float) -> Leased[Keys]:
        return await metadata.fetch_from_uri(client, deadline)

    return _Link(fetch, lambda: f"the credentials URI at {source.base_url}")
