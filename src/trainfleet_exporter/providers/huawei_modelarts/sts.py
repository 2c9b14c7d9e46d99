"""Temporary keys of an agency, for the ID token of a workload (a Kubernetes service account's, as a rule).

Not signed: the ID token is what proves who asks.

https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys
from trainfleet_exporter.providers.huawei_modelarts.sources import RenewedCredential, in_words
from trainfleet_exporter.providers.huawei_modelarts.temporary import KEYS_MARGIN, leased_keys
from trainfleet_exporter.providers.lease import Lease, Leased
from trainfleet_exporter.quantities import mapping
from trainfleet_exporter.transport import ApiClient, Call

_OPERATION = "AssumeAgencyWithOIDC"
_NAMES = ("access_key_id", "secret_access_key", "security_token", "expiration")


@dataclass(frozen=True, slots=True)
class Session:
    """What is asked of STS beside the agency."""

    name: str = "trainfleet-exporter"
    seconds: int = 3600
    """What the vendor's clients ask for as well."""
    policy: str = ""
    """Cuts the agency's rights down further; JSON."""
    policy_ids: tuple[str, ...] = ()

    def fields(self) -> dict[str, object]:
        """As the request has them."""
        asked: dict[str, object] = {"agency_session_name": self.name, "duration_seconds": self.seconds}
        if self.policy:
            asked["policy"] = self.policy
        if self.policy_ids:
            asked["policy_ids"] = list(self.policy_ids)
        return asked


def agency_keys(
    provider: str, provider_urn: str, agency_urn: str, token: Secret, sts: ApiClient, *, session: Session
) -> RenewedCredential[AccessKeys]:
    """Keys of the agency, for the ID token as it is now. `provider` names whose they are, in the log."""

    async def fetch(deadline: float) -> Leased[AccessKeys]:
        id_token = token.reveal()
        asked = {
            "provider_urn": provider_urn,
            "agency_urn": agency_urn,
            "id_token": id_token,
            **session.fields(),
        }
        call = Call(
            operation=_OPERATION,
            path="/v5/agencies/assume-with-oidc",
            method="POST",
            body=json.dumps(asked).encode(),
            secrets=(id_token,),
        )
        answer = await sts.call(call, deadline=deadline)
        told = mapping(answer, "credentials") if isinstance(answer, dict) else {}
        return leased_keys(told, _NAMES, operation=_OPERATION)

    what = f"{provider}: temporary keys of OIDC agency {agency_urn}"
    lease = Lease(what, fetch, margin=KEYS_MARGIN, basis=token.now)
    return RenewedCredential(f"OIDC agency {agency_urn}, with the token of {in_words(token)}", lease)
