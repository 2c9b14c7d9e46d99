"""The examples of the two vendor pages that the product was conceived from.

The values below are those of the pages' example answers, cut to the fields that are read. Where the pages themselves
are at hand (a folder named by TRAINFLEET_VENDOR_PAGES, or next to the checkout), their whole examples are used too.
"""

from __future__ import annotations

from typing import Any

GET_JOB_METRICS: dict[str, Any] = {
    "JobId": "dlc-20210126170216-*******",
    "PodMetrics": [
        {
            "PodId": "dlc-20210329110128-******-worker-0",
            "Metrics": [{"Time": 1616987726587, "Value": 23.45}],
        }
    ],
    "RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E",
}

_POD: dict[str, Any] = {
    "Type": "Worker",
    "PodId": "Worker",
    "PodUid": "fe846462-af2c-4521-bd6f-96787a57591d",
    "GmtCreateTime": "2021-01-12T14:36:01Z",
    "GmtStartTime": "2021-01-12T14:36:01Z",
    "SubStatus": "Normal",
    "ResourceType": "Normal",
}
GET_JOB: dict[str, Any] = {
    "JobId": "dlc*******",
    "JobType": "TFJob",
    "DisplayName": "tf-mnist-test",
    "UserId": "12*********",
    "Status": "Stopped",
    "WorkspaceId": "268",
    "WorkspaceName": "dlc-workspace",
    "ResourceId": "r******",
    "ResourceLevel": "L0",
    "ReasonCode": "JobStoppedByUser",
    "JobSpecs": [
        {
            "Type": "Worker",
            "PodCount": 1,
            "EcsSpec": "ecs.c6.large",
            "ResourceConfig": {
                "CPU": "10",
                "GPU": "3",
                "Memory": "10Gi",
                "SharedMemory": "5Gi",
                "GPUType": "Tesla-V100-16G",
            },
            "UseSpotInstance": False,
        }
    ],
    "GmtCreateTime": "2021-01-12T14:35:01Z",
    "GmtSubmittedTime": "2021-01-12T14:36:01Z",
    "GmtRunningTime": "2021-01-12T14:36:21Z",
    "GmtSuccessedTime": "2021-01-12T15:36:08Z",
    "GmtStoppedTime": "2021-01-12T15:36:08Z",
    "GmtFailedTime": "2021-01-12T15:36:08Z",
    "GmtFinishTime": "2021-01-12T15:36:08Z",
    "Duration": 3602,
    "Pods": [
        {
            **_POD,
            "Status": "Running",
            "Ip": "10.0.1.2",
            "GmtFinishTime": "2021-01-12T15:36:05Z",
            "HistoryPods": [{**_POD, "Status": "Failed", "Ip": "10.0.1.3", "GmtFinishTime": "2021-01-12T14:36:01Z"}],
        }
    ],
    "Settings": {"Tags": {"key": ""}},
    "Priority": 1,
    "SubStatus": "Restarting",
    "RestartTimes": "0/10",
}
