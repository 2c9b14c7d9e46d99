"""The default chains of Alibaba Cloud and Huawei Cloud against the vendors' own clients, in the same environments."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.providers.alibaba_pai import chain as alibaba
from tests.providers.huawei_modelarts import chain as huawei

MACHINES = {"alibaba": "GetRamRoleCredentials", "huawei": "GetSecurityKey"}
"""The call by which each client gets the keys of the machine's role."""
_MARK = "the client does not read a file with a byte order mark"
_CHECKED = "the client sends what the service refuses"
DIFFERENT = {
    "alibaba": {"CLI with a byte order mark": _MARK},
    "huawei": {
        "profile with a byte order mark": _MARK,
        "broken profile: wrong project": _CHECKED,
        "broken profile: invisible character": _CHECKED,
        "broken profile: swapped keys": _CHECKED,
    },
}
"""By cloud and environment: why the client finds other keys, or none."""
VENDORS = {"alibaba": ("alibabacloud_credentials", alibaba), "huawei": ("huaweicloudsdkcore", huawei)}


@pytest.mark.parametrize("vendor", VENDORS)
def test_chain_finds_what_the_vendors_client_finds(vendor: str, tmp_path: Path) -> None:
    package, module = VENDORS[vendor]
    if importlib.util.find_spec(package) is None and not os.environ.get("CI"):
        pytest.skip(f"the vendor's package {package} is not installed")
    tests: Any = module
    rows = tests.ENVIRONMENTS | {f"broken profile: {name}": row for name, row in tests.BROKEN.items()}
    asked = json.dumps([(row.env, {"token": "an-id-token", **row.files}) for row in rows.values()])
    command = [sys.executable, str(Path(__file__).parent / "vendor_chains.py"), vendor]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=100, check=True)
    machine = ["issued", MACHINES[vendor]]
    wrong = []
    for number, ((name, row), theirs) in enumerate(zip(rows.items(), json.loads(done.stdout), strict=True)):
        (home := tmp_path / str(number)).mkdir()
        found = tests.CHAIN.use(row, home)
        ours = None if found.keys is None else [found.keys.access_key_id, (found.calls or [""])[-1]]
        # What is unusable ends our chain. The client goes on, to the role of the machine.
        is_right = ours == theirs or (ours is None and theirs == machine)
        if is_right == (name in DIFFERENT[vendor]):
            wrong.append((name, ours, theirs))
    assert wrong == []
