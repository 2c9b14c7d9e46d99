"""What the vendors' own clients find in an environment. A process of its own: they read the environment at import.

Reads a list of environments and files from stdin as JSON, and writes for each the key id and the call that gave it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

END = "2099-01-01T00:00:00Z"


def alibaba(note: Callable[[str], None]) -> str:
    """Return the key id of alibabacloud-credentials' default chain."""

    def answer(request: Any, *_: object, **__: object) -> Any:
        path, query = getattr(request, "pathname", "") or "/", dict(getattr(request, "query", {}) or {})
        keys = {"AccessKeyId": "issued", "AccessKeySecret": "s", "SecurityToken": "t", "Expiration": END}
        body: object = {"Code": "Success", **keys}
        if request.method == "PUT":
            note("PutToken")
            body = "session"
        elif "Action" in query:
            note(query["Action"])
            body = {"Credentials": keys}
        elif path.endswith("/security-credentials/"):
            note("ListRamRoles")
            body = "m"
        else:
            note("GetRamRoleCredentials")
        text = body if isinstance(body, str) else json.dumps(body)
        return SimpleNamespace(status_code=200, status_message="", body=text.encode(), headers={})

    importlib.import_module("Tea.core").TeaCore.do_action = staticmethod(answer)
    for name in [name for name in sys.modules if name.startswith("alibabacloud_credentials")]:
        del sys.modules[name]
    chain = importlib.import_module("alibabacloud_credentials.provider.default").DefaultCredentialsProvider()
    return str(chain.get_credentials().get_access_key_id())


def huawei(note: Callable[[str], None]) -> str:
    """Return the key id of huaweicloudsdkcore's chain. It asks for an agency's keys later, when it signs."""

    def put(*_: object, **__: object) -> Any:
        note("GetMetadataToken")
        return SimpleNamespace(status_code=200, text="session")

    def get(*_: object, **__: object) -> Any:
        note("GetSecurityKey")
        keys = {"access": "issued", "secret": "s", "securitytoken": "t", "expires_at": END.replace("Z", ".000000Z")}
        return SimpleNamespace(status_code=200, text=json.dumps({"credential": keys}))

    requests = importlib.import_module("requests")
    requests.put, requests.get = put, get  # type: ignore[attr-defined]
    chain = importlib.import_module("huaweicloudsdkcore.auth.provider").CredentialProviderChain
    found = chain.get_basic().get_credentials()
    if type(found.sts_accessor).__name__ == "OidcStsAccessor":
        note("AssumeAgencyWithOIDC")
        return "issued"
    return str(found.ak)


def find(vendor: Callable[[Callable[[str], None]], str], environ: Mapping[str, str], files: Mapping[str, str]) -> Any:
    """Return the key id and the last call; None if the client refuses."""
    calls = [""]
    with tempfile.TemporaryDirectory() as home:
        for name, text in files.items():
            (Path(home) / name).parent.mkdir(exist_ok=True)
            (Path(home) / name).write_text(text.replace("{home}", home))
        os.environ.clear()
        os.environ.update({name: value.replace("{home}", home) for name, value in environ.items()}, HOME=home)
        try:
            return [vendor(calls.append), calls[-1]]
        except Exception:  # noqa: BLE001 - the clients raise anything
            return None


if __name__ == "__main__":
    chosen = {"alibaba": alibaba, "huawei": huawei}[sys.argv[1]]
    json.dump([find(chosen, *given) for given in json.load(sys.stdin)], sys.stdout)
