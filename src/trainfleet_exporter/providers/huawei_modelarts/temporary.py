"""Temporary keys as STS and the metadata service tell them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import AccessDenied, BadAnswer
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys
from trainfleet_exporter.providers.lease import Leased
from trainfleet_exporter.quantities import iso_time, text, utc_time

KEYS_MARGIN = 2400.0
"""Seconds before their end at which temporary keys are renewed, as the vendor's own clients do."""


def leased_keys(told: Mapping[str, Any], names: tuple[str, str, str, str], *, operation: str) -> Leased[AccessKeys]:
    """The keys of an answer; `names` are those of its access key, secret key, security token and end."""
    access_key, secret_key, security_token = (text(told, name) for name in names[:3])
    expires = utc_time(told, names[3])
    if expires is None or any(unusable(part) for part in (access_key, secret_key, security_token)):
        raise BadAnswer("the answer has no whole temporary key, or does not say when it ends", operation=operation)
    if expires <= time.time():
        raise AccessDenied(
            f"the temporary key that was issued ended at {iso_time(expires)}, and here it is {iso_time(time.time())}: "
            "is the clock of this machine right?",
            operation=operation,
        )
    return Leased(AccessKeys(access_key, secret_key, security_token), expires)
