"""From the credentials of a config to an identity that can ask."""

from __future__ import annotations

from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.huawei_modelarts import metadata
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys, Identity, Source
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.credentials_config import Credentials, Oidc
from trainfleet_exporter.providers.huawei_modelarts.dialect import OpenDialect
from trainfleet_exporter.providers.huawei_modelarts.profiles import ProfileFile
from trainfleet_exporter.providers.huawei_modelarts.sources import FileKeys, GivenKeys
from trainfleet_exporter.providers.huawei_modelarts.sts import Session, agency_keys
from trainfleet_exporter.providers.huawei_modelarts.tokens import User, password_tokens
from trainfleet_exporter.providers.key_files import KeyFiles, follow_secret
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.way_out import open_direct_transport
from trainfleet_exporter.transport import Transport


def open_identity(config: HuaweiModelArtsConfig, transport: Transport, context: BuildContext) -> Identity:
    """The identity of a provider, whose own `transport` asks IAM and STS. To be closed when it is not needed any more.

    Nothing is asked and no file read before the first call.
    """
    opening = _Opening(config, transport, context)
    return Identity(
        opening.source(config.credentials),
        region=config.region,
        project_id=opening.project_id,
        endpoints=opening.endpoints,
        closing=opening.direct,
    )


class _Opening:
    """What comes about on the way to a source."""

    def __init__(self, config: HuaweiModelArtsConfig, transport: Transport, context: BuildContext) -> None:
        self.project_id = config.project_id or config.credentials.project_id
        self.endpoints: dict[str, str] = {}
        self.direct: Transport | None = None
        self._config = config
        self._transport = transport
        self._context = context

    def source(self, given: Credentials) -> Source:
        """The one form that the credentials have."""
        if given.ecs_agency:
            return self._machine(given.tried)
        if given.oidc is not None:
            return self._agency(given.oidc, given.session)
        if given.username is not None:
            return self._user(given.username, given)
        if given.profile_file is not None:
            return _profile(given.profile_file)
        return _keys(given)

    def _machine(self, tried: tuple[str, ...]) -> Source:
        self.direct = open_direct_transport(
            self._context, connect_timeout=metadata.CONNECT_SECONDS, request_timeout=metadata.ALL_SECONDS
        )
        service = metadata.Metadata(self.direct, self._endpoint(metadata.API))
        return metadata.machine_keys(self._config.name, service, tried=tried)

    def _agency(self, oidc: Oidc, session: Session) -> Source:
        sts = self._transport.client(self._endpoint("sts"), OpenDialect("sts"))
        return agency_keys(self._config.name, oidc.provider_urn, oidc.agency_urn, oidc.token, sts, session=session)

    def _user(self, username: str, given: Credentials) -> Source:
        iam = self._transport.client(self._endpoint("iam"), OpenDialect("iam"))
        assert given.password is not None  # a form is whole
        user = User(username, given.password, given.domain_name or "")
        return password_tokens(self._config.name, user, iam, region=self._config.region, project_id=self.project_id)

    def _endpoint(self, api: str) -> str:
        self.endpoints[api] = self._config.endpoint(api)
        return self.endpoints[api]


def _profile(file: ProfileFile) -> Source:
    files = KeyFiles([file.path], file.read)
    return FileKeys(file.origin, files, lambda parts: parts[0].keys)


def _keys(given: Credentials) -> Source:
    parts = [part for part in (given.access_key, given.secret_key, given.security_token) if part is not None]
    origin = ", ".join(dict.fromkeys(part.source for part in parts))
    paths = [part.path for part in parts if part.path is not None]

    def assemble(read: tuple[Secret, ...]) -> AccessKeys:
        """Keys of the parts that are in files, in their order, and of the others."""
        of_files = iter(read)
        return AccessKeys(*((part if part.path is None else next(of_files)).reveal() for part in parts))

    return FileKeys(origin, KeyFiles(paths, follow_secret), assemble) if paths else GivenKeys(origin, assemble(()))
