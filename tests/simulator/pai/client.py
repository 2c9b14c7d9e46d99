"""Calls to the services that the simulated account has beside PAI's own, and with other keys than the permanent one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from tests.simulator.client import Caller, send, signed_headers

VERSIONS = {"cloudmonitor": "2019-01-01", "sts": "2015-04-01", "dlc": "2020-12-03"}


def rpc(caller: Caller, api: str, action: str, *, method: str = "POST", **query: str) -> httpx.Response:
    """A signed call in RPC style: everything in the query."""
    changes = {"action": action, "version": VERSIONS[api], "method": method, "now": caller.clock.now}
    return send(caller.simulator, "/", query, headers=signed_headers("/", query, **changes), method=method)


def with_key(caller: Caller, key: Mapping[str, str], **changes: Any) -> httpx.Response:
    """ListWorkspaces with a temporary key from a service."""
    path = "/api/v1/workspaces"
    arguments = {
        "action": "ListWorkspaces",
        "version": "2021-02-04",
        "access_key_id": key["AccessKeyId"],
        "access_key_secret": key["AccessKeySecret"],
        "security_token": key["SecurityToken"],
        "now": caller.clock.now,
    }
    return send(caller.simulator, path, headers=signed_headers(path, {}, **(arguments | changes)))
