"""What is said of faults in a config that only Alibaba PAI can have (config.wording)."""

from __future__ import annotations

from trainfleet_exporter.config.wording import Wording


class PaiRule(Wording):
    """The rules of its credentials."""

    CREDENTIALS_FORM = (
        "found {found}; allowed: access_key_id and access_key_secret, perhaps with security_token; role_arn, perhaps "
        "with external_id, beside them or alone; or oidc; or ecs_ram_role; or profile; "
        "or no credentials for those of the vendor's own chain"
    )
    PROFILE = "found {found}, which cannot be used ({reason}); allowed: a profile of the vendor's own files"
    ROLE_ARN = "found {found}; allowed: a RAM role's ARN, such as acs:ram::1234567890123456:role/trainfleet"
    OIDC_PROVIDER_ARN = (
        "found {found}; allowed: an OIDC provider's ARN, such as acs:ram::1234567890123456:oidc-provider/cluster"
    )
    RAM_ROLE = "found {found}; allowed: true, or the name of the machine's RAM role"
