"""No object of a running exporter shows a secret when it is printed, formatted, listed or pickled.

The process knows every secret that it has read, received or used, so that it can redact it anywhere.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.secrets.kinds import (
    KEY_SECRET,
    KIND_SECRETS,
    KINDS,
    PLANTED,
    PROXY_PASSWORD,
    Kind,
    build,
    simulated,
    with_issued,
)
from tests.secrets.reach import reachable, shown
from tests.support.clock import run_stepped
from tests.transport.rig import JSON_OK, raw_server
from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.secrets import ProxyUrl
from trainfleet_exporter.process.redaction import KNOWN, KnownSecrets, redact
from trainfleet_exporter.providers.huawei_modelarts.api import Token
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call, HttpAnswer, HttpSettings, SignedRequest
from trainfleet_simulator import Simulator


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOWN, "_configured", {})
    monkeypatch.setattr(KNOWN, "_used", {})


def _used(kind: Kind, simulator: Simulator) -> set[str]:
    """The secrets that a poll used: those of the config, its environment and its files, and what clouds issued."""
    files = [text for file, text in kind.files.items() if file.startswith(".") or f'"{file}"' in kind.given]
    given = json.dumps([kind.given, dict(kind.environ), files], ensure_ascii=False).replace("\\\\", "\\")
    used = {text for text in KIND_SECRETS if json.dumps(text, ensure_ascii=False)[1:-1] in given}
    for keys in simulator.sts.issued:
        used.update(text for text in (keys.access_key_id, keys.access_key_secret, keys.security_token) if text)
    for theirs in simulator.agency.issued:
        used.update((theirs.access_key_id, theirs.access_key_secret, theirs.security_token))
    return used


@pytest.mark.parametrize("name", KINDS)
def test_secrets_of_a_poll_show_nowhere_and_are_redacted(name: str, tmp_path: Path) -> None:
    simulator = simulated()

    async def main() -> list[object]:
        async with simulator.serve() as url:
            exporter = build(tmp_path, KINDS[name], url)
            try:
                await exporter.runners[0].tick()
                assert exporter.runners[0].state.success
                found = list(reachable(exporter))
                texts = {f"{number}: {type(each)}": shown(each) for number, each in enumerate(found)}
            finally:
                await exporter.aclose()
        secrets = with_issued(simulator)
        if secrets.hits({"all": "\n".join(texts.values())}):
            raise AssertionError("\n".join(secrets.hits(texts)))
        return found

    assert any(isinstance(each, Secret | Keys | Token) for each in run_stepped(main))
    used = _used(KINDS[name], simulator)
    assert used
    for secret in used:
        for text in (secret, repr({"key": secret}), json.dumps(secret), f"ValueError: '{secret[:20]}...' is wrong"):
            assert PLANTED.hits({"text": redact(text)}) == []
            assert secret[:16] not in redact(text)


def test_temporary_keys_do_not_push_out_configured_secrets() -> None:
    known = KnownSecrets()
    known.remember("configured-secret", configured=True)
    base = "key-that-signs-each-renewal"
    for number in range(2_000):
        known.remember(base)
        known.remember(f"temporary-{number:05}")
    assert known.redact(f"configured-secret {base} temporary-01999") == "<secret> <secret> <secret>"


def test_logging_while_secrets_are_looked_up_does_not_hang() -> None:
    known = KnownSecrets()
    known.remember("configured-secret")
    with known._lock:  # as a finalizer finds it that runs in the middle of a call
        assert known.redact("configured-secret") == "<secret>"


def test_the_walk_would_find_a_secret() -> None:
    class Careless:
        def __init__(self, text: str) -> None:
            self.text = text

    kept = [KEY_SECRET]
    for hidden in ({"a": [KEY_SECRET]}, (lambda: kept), partial(print, KEY_SECRET), Careless(KEY_SECRET), Careless):
        texts = {str(number): shown(each) for number, each in enumerate(reachable([hidden]))}
        assert bool(PLANTED.hits(texts)) is (hidden is not Careless)


async def test_connections_through_a_proxy_do_not_keep_its_password(tmp_path: Path) -> None:
    async with raw_server(JSON_OK) as proxy:
        http = {"proxy_url": f"http://me:{PROXY_PASSWORD}@{proxy.address}", "allow_plain_http": True}
        exporter = build(tmp_path, KINDS["pai: keys"], "http://cloud.test", http=http)
        try:
            await exporter.runners[0].tick()
            texts = {f"{n}: {type(each)}": shown(each) for n, each in enumerate(reachable(exporter))}
        finally:
            await exporter.aclose()
        assert b"proxy-authorization: basic " in proxy.heads[0].lower()
    if PLANTED.hits({"all": "\n".join(texts.values())}):
        raise AssertionError("\n".join(PLANTED.hits(texts)))


SECRET = PLANTED.plant("a field")
HOLDERS = [
    Secret(SECRET),
    ProxyUrl(f"http://me:{SECRET}@proxy.test"),
    Keys(SECRET, SECRET, SECRET),
    Token("", "", SECRET, project_id="project"),
    HttpSettings(proxy_url=f"http://me:{SECRET}@proxy.test"),
    Call(operation="X", path="/", query={"a": SECRET}, body=SECRET.encode(), secrets=(SECRET,)),
    SignedRequest("GET", f"/?{SECRET}", {"authorization": SECRET}, SECRET.encode(), (SECRET,)),
    HttpAnswer(200, httpx.Headers({"x-subject-token": "t"}), SECRET.encode(), {"a": SECRET}),
]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_what_holds_a_secret_cannot_be_written_down(holder: object) -> None:
    assert PLANTED.hits({"shown": shown(holder), "in a list": f"{[holder]}", "in json": _json(holder)}) == []
    with pytest.raises(TypeError):
        vars(holder)
    if isinstance(holder, Secret):
        assert PLANTED.hits({"pickle": pickle.dumps(holder)}) == []
        assert copy.deepcopy(holder) is holder
        assert holder.__getstate__() is None  # type: ignore[func-returns-value]  # that is the test
    else:
        assert dataclasses.is_dataclass(holder)
        for write in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="holds secrets, which are not written down"):
                write(holder)


def _json(holder: object) -> str:
    with pytest.raises(TypeError) as caught:
        json.dumps({"holder": holder})
    return str(caught.value) + json.dumps({"holder": holder}, default=str)
