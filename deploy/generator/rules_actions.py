"""The last sentence of each alert's description: what the reader does first."""

from __future__ import annotations

from collections.abc import Mapping

FIRST: Mapping[str, str] = {
    "ExporterDown": "First, look at the state and the log of the exporter.",
    "ProviderDown": "First, read `error` in the log of the exporter. It is often a rejected key or a lost network.",
    "CollectorStale": "First, read `error` in the log lines of this collector.",
    "ApiThrottled": "First, look for other clients of the account. Without any, make the intervals longer.",
    "ApiBudgetExceeded": "First, look at the restarts of the exporter.",
    "CollectorStretched": "First, compare the calls with the budget on the dashboard of the exporter.",
    "CredentialsExpiring": "First, read in the log of the exporter why the refresh failed.",
    "ConfigReloadFailed": "First, read `error` in the log of the exporter. It names the line.",
    "ShardMissing": "First, list the pods or processes of the shards, and start the missing one.",
    "ShardsDisagree": "First, compare the flags of all shards.",
    "NoLeader": "First, read the lines about the lease in the logs of the exporters.",
    "WriteErrors": "First, check the role of the service account, or the space on the disk.",
    "HandshakesRefused": "First, look at the certificate of this client.",
    "JobFailed": "First, read the end of the log of the pod that failed.",
    "JobPlatformFault": "First, keep new jobs off the node. Then submit the job again.",
    "JobIdle": "First, read the end of the job's log. Then ask the owner whether the job is still needed.",
    "JobHung": "First, save the stacks of all ranks, such as with py-spy. Then restart the job.",
    "JobMayHang": "First, look for new lines in the log of the job.",
    "JobSlowed": "First, compare the pods on the dashboard of the job.",
    "PodStraggling": "First, look for a throttled accelerator or a busy CPU on the node. Then replace the node.",
    "DeviceUnhealthy": "First, save a checkpoint and move the job to another node.",
    "JobRestartStorm": "First, read the end of the log of an earlier run.",
    "PodsEvicted": "First, check that the job continued from its checkpoint.",
    "JobQueuedTooLong": "First, compare its request with the free accelerators of the pool.",
    "JobFailureRateHigh": "First, compare the logs of failed jobs of two users.",
    "PoolNodesAbnormal": "First, read the state of the nodes in the console of the cloud.",
    "NodeMaintenanceAhead": "First, save checkpoints of the jobs on the node.",
    "NodeLeaseEnding": "First, renew the leases in the console of the cloud.",
    "PoolSaturated": "First, look for idle jobs in the pool.",
    "JobQuotaNearlyUsed": "First, stop jobs that are no longer needed.",
}
"""By the alert's name without `Trainfleet`."""
