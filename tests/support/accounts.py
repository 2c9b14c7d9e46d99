"""The accounts of the simulated clouds, as providers of a config."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.sagemaker import catalog as aws
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET


class Account(NamedTuple):
    """An account, with the APIs of its cloud and the keys that it accepts."""

    platform: str
    region: str
    apis: tuple[str, ...]
    keys: Mapping[str, str]
    more: Mapping[str, str] = {}


ACCOUNTS = {
    "pai": Account(
        "alibaba_pai",
        "cn-hangzhou",
        ("dlc", "paistudio", "aiworkspace", "cloudmonitor", "sts", "metadata"),
        {"access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET},
    ),
    "modelarts": Account(
        "huawei_modelarts",
        catalog.REGION,
        ("modelarts", "iam", "aom", "sts", "metadata"),
        {"access_key": catalog.ACCESS_KEY, "secret_key": catalog.SECRET_KEY},
        {"project_id": catalog.PROJECT_ID},
    ),
    "sagemaker": Account(
        "aws_sagemaker",
        aws.REGION,
        ("sagemaker", "cloudwatch", "sts", "metadata"),
        {"access_key_id": aws.ACCESS_KEY_ID, "secret_access_key": aws.SECRET_ACCESS_KEY},
    ),
}


def provider(cloud: str, url: str | Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Return a provider. `url` is the address of all its APIs, or their addresses by API. A key that is None is left
    out."""
    account = ACCOUNTS[cloud]
    endpoints = {api: url if isinstance(url, str) else url[api] for api in account.apis}
    own = {"name": cloud, "platform": account.platform, "region": account.region, "credentials": dict(account.keys)}
    found = {**own, "endpoints": endpoints, **account.more, **more}
    return {key: value for key, value in found.items() if value is not None}


def config_text(providers: Sequence[Mapping[str, Any]], **settings: Any) -> str:
    """Return the text of a config with these providers and global settings."""
    return json.dumps({"global": settings, "providers": providers}, ensure_ascii=False)


def usual_config(url: str, *clouds: str) -> str:
    """Return the text of a config of one account of each cloud, at default intervals."""
    limits, collectors = {"requests_per_second": 200, "concurrency": 8}, {"nodes": {"enabled": True}}
    return config_text([provider(cloud, url, limits=limits, collectors=collectors) for cloud in clouds])
