"""The process knows every secret that it has read, received or used, so that it can redact it anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.secrets.kinds import KIND_SECRETS, KINDS, PLANTED, build, simulated
from tests.support.clock import run_stepped
from trainfleet_exporter.process.redaction import KNOWN, KnownSecrets, redact


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOWN, "_configured", {})
    monkeypatch.setattr(KNOWN, "_used", {})


@pytest.mark.parametrize("name", KINDS)
def test_secrets_of_a_poll_are_redacted_in_any_text(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    files = [text for file, text in kind.files.items() if file.startswith(".") or f'"{file}"' in kind.given]
    given = json.dumps([kind.given, dict(kind.environ), files], ensure_ascii=False)
    used = {text for text in KIND_SECRETS if json.dumps(text, ensure_ascii=False)[1:-1] in given.replace("\\\\", "\\")}

    async def main() -> None:
        simulator = simulated()
        async with simulator.serve() as url:
            exporter = build(tmp_path, kind, url)
            try:
                await exporter.runners[0].tick()
                assert exporter.runners[0].state.success
            finally:
                await exporter.aclose()
        for keys in simulator.sts.issued:
            used.update(text for text in (keys.access_key_id, keys.access_key_secret, keys.security_token) if text)
        for theirs in simulator.agency.issued:
            used.update((theirs.access_key_id, theirs.access_key_secret, theirs.security_token))

    run_stepped(main)
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
