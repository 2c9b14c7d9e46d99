"""prometheus-client with the samples of a page, each a gauge's child: `python -m benchmarks.client_server FILE`.

This module imports nothing else of ours, because its memory is compared with ours.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import prometheus_client as prometheus

_LABEL = re.compile(r'(\w+)="([^"]*)"')
"""No value of a benchmark's page needs escaping."""


def registry(path: Path) -> prometheus.CollectorRegistry:
    """Return gauges for all families of a page in Prometheus' text format."""
    made = prometheus.CollectorRegistry()
    gauges: dict[str, prometheus.Gauge] = {}
    helps: dict[str, str] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                _, kind, name, text = line.rstrip("\n").split(" ", 3)
                if kind == "HELP":
                    helps[name] = text
                continue
            name, _, rest = line.partition("{")
            labels, _, value = rest.rpartition("} ")
            pairs = _LABEL.findall(labels)
            if name not in gauges:
                gauges[name] = prometheus.Gauge(name, helps[name], [label for label, _ in pairs], registry=made)
            gauges[name].labels(*[text for _, text in pairs]).set(float(value))
    return made


def main() -> None:
    """Serve until the input ends."""
    server, _ = prometheus.start_http_server(0, addr="127.0.0.1", registry=registry(Path(sys.argv[1])))
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
