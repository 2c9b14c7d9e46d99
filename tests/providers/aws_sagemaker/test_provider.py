"""The platform as a whole: no collector succeeds without a call, what a policy names, and no past."""

from __future__ import annotations

from pathlib import Path

from tests.providers.aws_sagemaker.cloud import CONFIG, Run
from tests.providers.aws_sagemaker.models import service
from trainfleet_exporter.backfill.command import Wish, fault_in
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.aws_sagemaker.provider import PLATFORM
from trainfleet_exporter.providers.history import Range


def test_every_operation_has_its_action(run: Run) -> None:
    assert {action.partition(":")[2] for action in PLATFORM.permissions.values()} == PLATFORM.permissions.keys()
    for operation, action in PLATFORM.permissions.items():
        assert operation in service(action.partition(":")[0]).operation_names


def test_backfill_refuses_the_platform(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    config = load_config(path, environ={}, platforms={PLATFORM.name: PLATFORM.config})
    wish = Wish(provider="p", wanted=Range(1_700_000_000, 1_700_086_400), out=tmp_path)
    assert fault_in(wish, config, {PLATFORM.name: PLATFORM}, 2e9) == (
        "--provider: platform aws_sagemaker has no past data to backfill"
    )
