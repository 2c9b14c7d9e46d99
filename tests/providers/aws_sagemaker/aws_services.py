"""A loopback server that is EC2 metadata, a container endpoint, STS and the SSO portal; it notes who was asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

ROLE = "arn:aws:iam::123456789012:role/{}"
_STS = """<{0}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{0}Result><Credentials>
<AccessKeyId>{1}</AccessKeyId><SecretAccessKey>planted-sts-secret</SecretAccessKey><SessionToken>planted-sts-token</SessionToken>
<Expiration>{2}</Expiration></Credentials></{0}Result></{0}Response>"""
DENIED = """<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"""


class AwsServices(ThreadingHTTPServer):
    """The key id of an answer names who got it: `IMDS`, `CONTAINER`, `SSO`, or `STS.role.asker`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.paths: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.machine_role: str | None = "machine"
        self.sts_answer: tuple[int, str] | None = None
        """Status and text in the place of keys."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def aws_services() -> Iterator[AwsServices]:
    """Serve until the block ends."""
    server = AwsServices()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: AwsServices

    def log_message(self, *args: Any) -> None:
        """Silent."""

    def parse_request(self) -> bool:
        is_good = super().parse_request()
        self.server.paths.append(self.path)
        return is_good

    def do_PUT(self) -> None:
        self.server.asked.append("imds")
        self._send("session-token")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        keys: dict[str, object] = {"SecretAccessKey": "planted-secret", "Token": "planted-token", "Expiration": _end()}
        if path.startswith("/latest/meta-data/iam/security-credentials"):
            self.server.asked.append("imds")
            role = self.server.machine_role
            if self.headers.get("x-aws-ec2-metadata-token") != "session-token":
                self._send("", 401)
            elif role is None or not path.endswith(("/", f"/{role}")):
                self._send("none", 404)
            elif path.endswith("/"):
                self._send(role)
            else:
                self._send(json.dumps({"Code": "Success", "AccessKeyId": "IMDS", **keys}))
        elif path == "/container":
            self.server.asked.append("container")
            who = self.headers.get("Authorization", "CONTAINER")
            self._send(json.dumps({"AccessKeyId": who, **keys, "Expiration": _end(minutes=9)}))
        elif path == "/federation/credentials":
            self.server.asked.append("sso")
            end = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
            issued = {"accessKeyId": "SSO", "secretAccessKey": "s", "sessionToken": "t", "expiration": end}
            self._send(json.dumps({"roleCredentials": issued}))
        elif path.startswith("/500"):
            self._send("planted-text", 500)
        else:
            self._send("", 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "oidc-refresh" in body:
            self.server.asked.append("sso-oidc")
            if "oidc-refresh-refused" in body:
                self._send('{"error": "invalid_grant", "error_description": "planted-text"}', 400)
                return
            answer = {"accessToken": "new", "expiresIn": 600 if "oidc-refresh-short" in body else 3600}
            answer |= {"refreshToken": "oidc-refresh-2", "tokenType": "Bearer"}
            self._send(json.dumps(answer))
            return
        form = parse_qs(body)
        self.server.asked.append("sts")
        self.server.forms.append(form)
        signer = re.search("Credential=([^/]*)/", self.headers.get("Authorization", ""))
        asker = signer[1] if signer else form.get("WebIdentityToken", ["nobody"])[0]
        operation, role = form["Action"][0], form["RoleArn"][0].rpartition("/")[2]
        if "json" in self.headers.get("Accept", ""):  # as STS does it, which botocore cannot read
            self._send(json.dumps({f"{operation}Response": {}}))
        elif self.server.sts_answer is not None:
            status, text = self.server.sts_answer
            self._send(text, status, "text/xml")
        else:
            self._send(_STS.format(operation, f"STS.{role}.{asker}", _end()), 200, "text/xml")

    def _send(self, text: str, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _end(minutes: int = 360) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
