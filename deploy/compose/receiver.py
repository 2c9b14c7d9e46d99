"""A webhook for Alertmanager that prints a line for each alert that it receives."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_LARGEST = 4 << 20


def lines(path: str, notification: dict[str, Any]) -> list[str]:
    """What a notification to a receiver (the path) says."""
    return [
        f"{path.lstrip('/')}: {alert['status'].upper()} {alert['labels'].get('severity', '')} "
        f"{alert['labels']['alertname']}: {alert['annotations'].get('summary', '')}"
        for alert in notification["alerts"]
    ]


class Handler(BaseHTTPRequestHandler):
    """Takes any POST of a notification."""

    def do_POST(self) -> None:
        """Print it."""
        length = int(self.headers.get("content-length", "0"))
        if not 0 < length <= _LARGEST:
            self.send_error(413)
            return
        try:
            received = lines(self.path, json.loads(self.rfile.read(length)))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.send_error(400)
            return
        for line in received:
            print(line, flush=True)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server has
        """Requests are not worth a line of their own."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
