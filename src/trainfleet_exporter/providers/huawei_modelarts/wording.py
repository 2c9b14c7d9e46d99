"""What is said of faults in a config that only Huawei ModelArts can have (config.wording)."""

from __future__ import annotations

from trainfleet_exporter.config.wording import Wording


class HuaweiRule(Wording):
    """The rules of its credentials."""

    CREDENTIALS_FORM = (
        "found {found}; allowed: access_key and secret_key, perhaps with security_token; or username, password and "
        "domain_name; or oidc; or ecs_agency: true; or profile; or no credentials for those of the vendor's own chain"
    )
    PROFILE = (
        "found the profile {found}, but {reason}; "
        "allowed: a profile with ak and sk in that file, or credentials of another form"
    )
