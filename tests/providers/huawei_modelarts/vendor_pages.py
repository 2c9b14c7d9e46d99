"""The three ModelArts pages that the product was conceived from: the values of their example answers."""

from __future__ import annotations

from typing import Any

_NONE = [-1] * 15
TASK_METRICS: dict[str, Any] = {
    "metrics": [
        {
            "metric": "cpuUsage",
            "value": [
                -1,
                -1,
                2.43,
                4.524,
                6.714,
                12.422,
                9.214,
                5.36,
                7.5,
                10.088,
                8.975,
                11.423,
                11.548,
                14.563,
                16.833,
            ],
        },
        {
            "metric": "memUsage",
            "value": [
                -1,
                -1,
                0.04,
                0.521,
                1.652,
                4.252,
                6.433,
                7.384,
                7.982,
                8.718,
                9.365,
                9.881,
                10.192,
                9.994,
                9.005,
            ],
        },
        {"metric": "gpuUtil", "value": _NONE},
        {"metric": "gpuMemUsage", "value": _NONE},
        {"metric": "npuUtil", "value": _NONE},
        {"metric": "npuMemUsage", "value": _NONE},
    ]
}
WORKLOAD_STATISTICS: dict[str, Any] = {
    "statistics": {
        "total": 234,
        "items": [{"type": "train", "total": 234, "status": {"Pending": 0, "Queue": 234, "Running": 0}}],
    }
}
POD_METRICS_V1: dict[str, Any] = {"metrics": [{"metric": "gpuUtil", "value": ["1", "22", "33"]}], "interval": 1}
