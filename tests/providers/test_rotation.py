"""Files that are replaced while the exporter runs: profiles, tokens of identity providers, and passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.alibaba_pai import chain as alibaba
from tests.providers.huawei_modelarts import chain as huawei
from tests.providers.key_rig import MockHttp
from tests.support.clock import run_stepped
from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.alibaba_pai.credentials import load as load_alibaba
from trainfleet_exporter.providers.huawei_modelarts.credentials import Credentials
from trainfleet_exporter.providers.huawei_modelarts.credentials import load as load_huawei
from trainfleet_exporter.providers.key_search import open_credential

PASSWORD = object()


@dataclass
class Case:
    """Files at first, files that replace them, and after how many seconds what is in use."""

    load: Any
    answer: Callable[[httpx.Request], httpx.Response]
    before: dict[str, str]
    after: dict[str, str]
    used: list[tuple[float, str]]
    env: dict[str, str] = field(default_factory=dict)
    section: Any = None


def echo(answer: Callable[[httpx.Request], httpx.Response]) -> Callable[[httpx.Request], httpx.Response]:
    """Return the answers with the number of the token or password that was sent in place of `issued` keys."""

    def echoed(request: httpx.Request) -> httpx.Response:
        given = answer(request)
        number = "two" if b"planted-two" in request.content else "one"
        headers = {name: text.replace("planted-token", number) for name, text in given.headers.items()}
        body = given.text.replace('"issued"', f'"{number}"').replace("2099-01-01T00:00:00", "2026-01-02T04:04:05")
        return httpx.Response(given.status_code, content=body, headers={**headers, "content-length": str(len(body))})

    return echoed


def cli(key_id: str) -> dict[str, str]:
    return alibaba.cli(alibaba.profile("AK", access_key_id=key_id, access_key_secret="planted"))


def ini(key_id: str, secret: str = "planted") -> dict[str, str]:
    return {huawei.FILE: f"[basic]\nak = {key_id}\nsk = {secret}\n"}


BASE = alibaba.profile("AK", **alibaba.KEYS)
ALIBABA, HUAWEI = (load_alibaba, echo(alibaba.answer)), (load_huawei, echo(huawei.answer))
ONE, TWO = {"token": "planted-one"}, {"token": "planted-two"}
CASES = {
    "profile of PAI": Case(*ALIBABA, cli("one"), cli("two"), [(0, "one"), (301, "two")]),
    "profile of PAI, cut off": Case(
        *ALIBABA, cli("one"), {alibaba.CLI: '{"current": "def'}, [(0, "one"), (301, "one")]
    ),
    "profile of PAI, half a key": Case(*ALIBABA, cli("one"), cli(""), [(0, "one"), (301, "one"), (7200, "one")]),
    "token of PAI": Case(*ALIBABA, ONE, TWO, [(0, "one"), (2000, "one"), (2701, "two")], alibaba.OIDC),
    "token of PAI, emptied": Case(
        *ALIBABA, ONE, {"token": ""}, [(2701, "one"), (3599, "one"), (3601, "")], alibaba.OIDC
    ),
    "profile of ModelArts": Case(*HUAWEI, ini("one"), ini("two"), [(0, "one"), (301, "two")]),
    "profile of ModelArts, cut off": Case(*HUAWEI, ini("one"), {huawei.FILE: "[basic]\nak = t"}, [(301, "one")]),
    "profile of ModelArts, half a key": Case(*HUAWEI, ini("one"), ini("two", ""), [(301, "one")]),
    "token of ModelArts": Case(*HUAWEI, ONE, TWO, [(0, "one"), (2699, "one"), (2701, "two")], huawei.OIDC),
    "token of ModelArts, emptied": Case(
        *HUAWEI, ONE, {"token": ""}, [(2701, "one"), (3599, "one"), (3601, "")], huawei.OIDC
    ),
    "password of ModelArts": Case(*HUAWEI, ONE, TWO, [(0, "one"), (2701, "two")], section=PASSWORD),
}


@pytest.mark.parametrize("name", CASES)
def test_replaced_files_are_used_when_they_are_whole(name: str, tmp_path: Path) -> None:
    case = CASES[name]

    def write(files: dict[str, str]) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)

    async def main() -> None:
        write(case.before)
        section = case.section
        if section is PASSWORD:
            section = Credentials(username="u", password=Secret.from_file(tmp_path / "token"), domain_name="d")
        environ = {name: text.replace("{home}", str(tmp_path)) for name, text in case.env.items()}
        http = MockHttp(case.answer)
        credential = open_credential("p", section, case.load, http, {**environ, "HOME": str(tmp_path)})
        began, found = asyncio.get_running_loop().time(), []
        await credential.keys(began + 20)
        write(case.after)
        for at, _ in case.used:
            await asyncio.sleep(began + at - asyncio.get_running_loop().time())
            try:
                keys = await credential.keys(asyncio.get_running_loop().time() + 20)
                found.append((at, keys.access_key_id or keys.security_token))
            except AccessDenied as error:
                found.append((at, "planted" if "planted" in str(error) else ""))
        assert found == case.used

    run_stepped(main)


@pytest.mark.parametrize("profile", [BASE, alibaba.profile("RamRoleArn", **alibaba.KEYS, ram_role_arn=alibaba.ROLE)])
def test_lost_profile_never_becomes_the_machines_role(profile: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / alibaba.CLI
    path.parent.mkdir()
    path.write_text(alibaba.cli(profile)[alibaba.CLI])

    def answer(request: httpx.Request) -> httpx.Response:
        given = echo(alibaba.answer)(request)
        is_machine = request.url.path.startswith("/latest")
        return httpx.Response(200, text=given.text.replace("one", "machine")) if is_machine else given

    async def main() -> None:
        http = MockHttp(answer)
        credential = open_credential("p", None, load_alibaba, http, {"HOME": str(tmp_path)})
        before = await credential.keys(20)
        path.unlink()
        await asyncio.sleep(2701)
        assert await credential.keys(2721) is before
        assert http.calls[-3:] == alibaba.MACHINE

    run_stepped(main)
