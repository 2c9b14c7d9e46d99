"""The words that both clouds have for the state of a pool or node."""

from __future__ import annotations

from trainfleet_exporter.model import PoolStatus

POOL_STATUS = {
    "Ready": PoolStatus.READY,
    "Running": PoolStatus.READY,
    "Available": PoolStatus.READY,
    "Creating": PoolStatus.CREATING,
    "Waiting": PoolStatus.CREATING,
    "Checking": PoolStatus.CREATING,
    "Abnormal": PoolStatus.ABNORMAL,
    "Error": PoolStatus.ABNORMAL,
    "CreationFailed": PoolStatus.ABNORMAL,
    "ScalingFailed": PoolStatus.ABNORMAL,
    "Deleting": PoolStatus.DELETING,
}
