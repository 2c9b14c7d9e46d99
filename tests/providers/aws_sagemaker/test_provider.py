"""The permissions of the platform."""

from __future__ import annotations

from tests.providers.aws_sagemaker.models import service
from trainfleet_exporter.providers.aws_sagemaker.provider import PLATFORM


def test_every_operation_has_its_action() -> None:
    assert {action.partition(":")[2] for action in PLATFORM.permissions.values()} == PLATFORM.permissions.keys()
    for operation, action in PLATFORM.permissions.items():
        assert operation in service(action.partition(":")[0]).operation_names
