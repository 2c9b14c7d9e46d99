"""Runs on stepped time on a scripted project with AOM; a folder with credentials of each kind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud
from tests.providers.huawei_modelarts.credentials_rig import SECURITY_TOKEN, SIMULATORS
from tests.providers.huawei_modelarts.usage.usage_rig import Check, Page, Run
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet
from trainfleet_simulator.modelarts.agency import OIDC_TOKEN
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, PASSWORD, PROJECT_ID, SECRET_KEY


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    """Run a check on a fleet; no series may be published twice."""

    def run_check(check: Check, config: str = CONFIG) -> None:
        async def main() -> None:
            cloud = Cloud()
            cloud.aom = {}
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                page = Page(fleet.exporter)
                await check(cloud, fleet)
                assert page.changes > 0
                assert page.faults == []

        with caplog.at_level(logging.INFO):
            run_stepped(main)

    return run_check


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a file of profiles, and an ID token next to the config."""
    folder = tmp_path / ".huaweicloud"
    folder.mkdir()
    keys = f"ak = {ACCESS_KEY}\nsk = {SECRET_KEY}\n"
    text = f"[basic]\n{keys}[team]\n{keys}project_id = {PROJECT_ID}\n"
    (folder / "credentials").write_text(text, encoding="utf-8")
    (tmp_path / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    (tmp_path / "id-token").write_text(OIDC_TOKEN + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def no_secret_in_any_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Look for secrets in the log of the test, which must have some lines."""
    SIMULATORS.clear()
    with caplog.at_level(logging.DEBUG):
        yield
    secrets = {SECRET_KEY, PASSWORD, OIDC_TOKEN, SECURITY_TOKEN}
    for simulator in SIMULATORS:
        for key in simulator.agency.issued:
            secrets |= {key.access_key_id, key.access_key_secret, key.security_token}
    records = caplog.get_records("call")
    logged = "\n".join(f"{record.getMessage()} {record.__dict__.get('fields', '')}" for record in records)
    assert logged
    assert not [secret for secret in secrets if secret in logged]
    assert "MIISIM" not in logged  # what every IAM token of the simulator begins with
