"""A hostile or broken API server in, text out: what the log, the pages and the number of requests show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from tests.app.rig import Site
from tests.job_ledger.rig import ended
from tests.lease.api_server import ApiServer, lease_on
from tests.support.clock import run_stepped
from tests.support.logs import line_of
from trainfleet_exporter.process.logs import set_up_logs

TOKENS = [f"eyJhbGciOiJSUzI1NiIs{letter}ImtpZCI6InBsYW50ZWQi.{40 * letter}.c2lnbmF0dXJl{letter}" for letter in "xyz"]
HOLDER = {"holderIdentity": "other-0_1", "leaseDurationSeconds": 10, "leaseTransitions": 1}

Answer = Callable[[httpx.Request], httpx.Response]


class Leased(Site):
    """A daemon, and what its log says about its lease."""

    @property
    def lines(self) -> list[str]:
        """Lines of the log about the lease."""
        assert self._caplog is not None
        return [line_of(record) for record in self._caplog.records if "lease" in record.name]

    def write_errors(self, target: str = "lease") -> float:
        return self.own("write_errors_total", target=target) or 0.0


@contextlib.asynccontextmanager
async def site(
    folder: Path, caplog: pytest.LogCaptureFixture, answer: Answer, token: Callable[[], str] = lambda: "token"
) -> AsyncIterator[Leased]:
    """A daemon whose API server is `answer`."""
    caplog.set_level(logging.INFO)
    found = Leased(folder, caplog=caplog, lease=lease_on(answer, token))
    await found.daemon.start()
    try:
        yield found
    finally:
        await found.daemon.stop()


def _held(server: ApiServer, spec: dict[str, object] = HOLDER) -> None:
    """Have another exporter hold the lease, which renews it every two seconds."""
    version = server.leases.get("trainfleet-exporter", {"metadata": {"resourceVersion": "1"}})["metadata"]
    number = int(version["resourceVersion"]) + 1
    server.leases["trainfleet-exporter"] = {"metadata": {"resourceVersion": str(number)}, "spec": dict(spec)}


async def _renew(server: ApiServer, seconds: float) -> None:
    for _ in range(int(seconds / 2)):
        _held(server)
        await asyncio.sleep(2)


@pytest.mark.parametrize("quote", ["whole request", "truncated", "as JSON"])
def test_a_quoted_token_never_reaches_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], quote: str
) -> None:
    """Kubernetes renews the token, and a proxy quotes the former one."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        sent.append(token)
        shown = sent[-2] if len(sent) > 1 else token
        shown = {
            "whole request": f"GET /apis authorization: {shown}",
            "truncated": f"token={shown[:40]}...",
            "as JSON": "",
        }[quote] or json.dumps({"authorization": shown})
        return httpx.Response(400 + len(sent), json={"message": f"cannot route {shown}"})

    async def main() -> None:
        tokens = iter(TOKENS)
        set_up_logs("info", "logfmt")
        async with site(tmp_path, caplog, answer, lambda: next(tokens, TOKENS[-1])) as here:
            await asyncio.sleep(20)
            pages = [(await here.get(path)).text for path in ("/", "/-/ready", "/metrics")]
        shown = capsys.readouterr().err + "".join(pages)
        assert "HTTP 401 cannot route" in shown
        for token in TOKENS:
            assert not [part for part in token.split(".") if part[:16] in shown]

    root = logging.getLogger()
    before = list(root.handlers)
    try:
        run_stepped(main)
    finally:
        root.handlers[:] = before


async def test_a_body_is_read_up_to_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = [0]

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(2000):
                given[0] += 65536
                yield bytes(65536)

    async with site(tmp_path, caplog, lambda request: httpx.Response(200, stream=Endless())) as here:
        await asyncio.sleep(0.5)
        assert here.lines == ['cannot use the lease error="the API server: the response is over 512 KiB"']
    assert given[0] <= 600 * 1024


@pytest.mark.parametrize("transitions", ["-5", "9" * 4000, "2147483647", "1.5", '"7"'])
async def test_an_invalid_number_of_terms_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, transitions: str
) -> None:
    body = f'{{"metadata": {{"resourceVersion": "7"}}, "spec": {{"leaseTransitions": {transitions}}}}}'
    methods: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        methods.append(request.method)
        return httpx.Response(200, text=body)

    async with site(tmp_path, caplog, answer) as here:
        await asyncio.sleep(30)
        (line,) = here.lines
        assert line.startswith('cannot use the lease error="the lease trainfleet-exporter is not valid: Expected `int')
        assert line.endswith('at `$.spec.leaseTransitions`; delete it"')
        assert {*methods} == {"GET"}
        assert (await here.get("/-/ready")).status_code == 503


async def test_constant_conflicts_are_retried_at_the_period(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()

    async with site(tmp_path, caplog, server.answer) as here:
        await asyncio.sleep(20)
        assert here.leads == 1
        server.rejects_writes = 409
        server.requests.clear()
        await asyncio.sleep(12)
        assert len(server.requests) <= 20
        await asyncio.sleep(60)
        lines = [line for line in here.lines if "cannot use" in line]
        reason = "the API server: HTTP 409: another client has written the lease trainfleet-exporter"
        assert lines == [f'cannot use the lease error="{reason}"']
        assert here.write_errors() > 10
        assert (await here.get("/-/ready")).status_code == 503


async def test_a_long_holder_is_cut_and_redacted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()
    _held(server, HOLDER | {"holderIdentity": f"Bearer {TOKENS[0]} " + 20_000 * "h"})

    async with site(tmp_path, caplog, server.answer) as here:
        await asyncio.sleep(1)
        (line,) = here.lines
        assert line.startswith('standing by: another exporter holds the lease holder="Bearer <secret> hhh')
        assert len(line) < 300
        page = (await here.get("/")).text
        assert "The lease is held by Bearer &lt;secret&gt; hhh" in page
        assert 300 * "h" not in page


@pytest.mark.parametrize("status", [403, 500])
async def test_a_lease_that_cannot_be_written_is_one_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    server = ApiServer()
    server.rejects_writes = status

    async with site(tmp_path, caplog, server.answer) as here:
        await _renew(server, 30)
        problem = f'cannot use the lease error="the API server: HTTP {status} leases.coordination.k8s.io is forbidden"'
        standing = "standing by: another exporter holds the lease holder=other-0_1"
        assert here.lines == [standing, problem]
        ready = await here.get("/-/ready")
        assert (ready.status_code, ready.text) == (503, "on standby, and cannot take the lease; see the log\n")
        assert "This exporter cannot take the lease; see its log." in (await here.get("/")).text
        assert here.write_errors() == server.requests.count(("PUT dry run", status)) >= 15
        assert here.write_errors("ledger") == 0

        server.rejects_writes = 0
        await _renew(server, 4)
        assert here.lines == [standing, problem, "the lease can be written again"]
        ready = await here.get("/-/ready")
        assert (ready.status_code, ready.text) == (200, "trainfleet-exporter is ready and stands by.\n")
        assert here.write_errors() == server.requests.count(("PUT dry run", status))


async def test_a_right_that_is_taken_away_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()

    async with site(tmp_path, caplog, server.answer) as here:
        await _renew(server, 10)
        assert (await here.get("/-/ready")).status_code == 200
        assert server.requests.count(("PUT dry run", 200)) == 1
        assert ("PUT", 200) not in server.requests
        server.rejects_writes = 403
        await _renew(server, 62)
        assert (await here.get("/-/ready")).status_code == 503
        assert len([line for line in here.lines if "cannot use" in line]) == 1


async def test_a_ledger_that_cannot_be_written_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, caplog, ApiServer().answer) as here:
        ledger = here.exporter._job_ledger
        ledger.path = tmp_path / "missing" / "ledger.jsonl"
        ledger.add(ended())
        await asyncio.sleep(1)
        assert here.write_errors("ledger") == 1
