"""docs/alerts.md: the test alert of the page reaches a mailbox through its alertmanager.yml."""

from __future__ import annotations

import contextlib
import shlex
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.alerting import alertmanager_with
from tests.docs.commands import commands
from tests.docs.pages import ROOT
from tests.e2e.processes import eventually
from tests.support.programs import need

PAGE = ROOT / "docs" / "alerts.md"


class _Mailbox(socketserver.ThreadingTCPServer):
    """A mail server without TLS that keeps recipients and subjects."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.lines: list[str] = []


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Mailbox)
        self.wfile.write(b"220 mail.example.com\r\n")
        in_mail = False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if line.startswith(("RCPT", "Subject:")):
                self.server.lines.append(line)
            if in_mail:
                in_mail = line != "."
                answer = b"" if in_mail else b"250 ok\r\n"
            else:
                in_mail = line == "DATA"
                answer = b"354 go on\r\n" if in_mail else b"221 bye\r\n" if line == "QUIT" else b"250 ok\r\n"
            self.wfile.write(answer)


@contextlib.contextmanager
def _mailbox() -> Iterator[_Mailbox]:
    with _Mailbox() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join()


@pytest.mark.parametrize(("user", "address"), [("alice", "alice@example.com"), ("", "platform@example.com")])
def test_the_test_alert_arrives_by_mail(user: str, address: str, tmp_path: Path) -> None:
    amtool = need("amtool")
    (file,) = (each.text for each in commands(PAGE) if each.text.startswith("cat > alertmanager.yml"))
    (command,) = (each for each in commands(PAGE) if each.words[:2] == ["amtool", "alert"])
    config = yaml.safe_load("\n".join(file.splitlines()[1:-1]))
    config["route"]["group_wait"] = "0s"  # so that the test does not wait
    for key in ("smtp_auth_username", "smtp_auth_password_file"):  # as the page says for a server without TLS
        del config["global"][key]
    config["global"]["smtp_require_tls"] = False
    with _mailbox() as mailbox:
        host, port = mailbox.server_address[:2]
        config["global"]["smtp_smarthost"] = f"{host!s}:{port}"
        with alertmanager_with(config, tmp_path) as (_, manager):
            text = command.text.replace("localhost:9093", f"127.0.0.1:{manager}")
            text = text.replace("user_name=alice", f"user_name={user}")
            subprocess.run([amtool, *shlex.split(text)[1:]], check=True)
            eventually(lambda: len(mailbox.lines) == 2, what="a mail")
    recipient, subject = sorted(mailbox.lines)
    assert recipient == f"RCPT TO:<{address}>"
    assert "TrainfleetJobIdle" in subject
