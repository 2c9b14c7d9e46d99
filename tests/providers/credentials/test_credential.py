"""Temporary keys of an answer are whole and alive, or they are an error; and nothing prints a key."""

from __future__ import annotations

import asyncio
import time

import httpx
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.credentials.third_cloud import Answer, Signed
from tests.support.clock import START, run_stepped
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError
from trainfleet_exporter.providers.credentials import Issued, Keys, OpenDialect, issued_keys
from trainfleet_exporter.providers.credentials.refreshable import Refreshable
from trainfleet_exporter.transport import Account, Call, CallLimits, HttpSettings, Transport

PARTS = st.none() | st.text(max_size=5) | st.just("key")
TIMES = st.sampled_from(["2026-01-02T04:04:05Z", "2026-01-02T04:04:05.000001Z", "2026-01-02T02:04:05Z", "soon", None])


@given(key_id=PARTS, secret=PARTS, token=PARTS, expiration=TIMES | st.text(max_size=25))
def test_keys_are_whole_and_alive_or_an_error(
    key_id: str | None, secret: str | None, token: str | None, expiration: str | None
) -> None:
    said = ""
    with time_machine.travel(START, tick=False):
        try:
            answer = Answer(key_id, secret, token, expiration)
            issued = issued_keys(answer, "Op", incomplete="incomplete", expired="ended at {ended}")
        except (AccessDenied, BadAnswer) as error:
            said = str(error)
    if said:
        assert said in {"Op: incomplete", "Op: ended at 2026-01-02T02:04:05Z"}
    else:
        keys = issued.value
        assert issued.expires > START
        assert all(part.strip() for part in (keys.access_key_id, keys.access_key_secret, keys.security_token or ""))


def test_keys_do_not_print_even_their_id() -> None:
    assert "hunter" not in repr(Keys("hunter1", "hunter2", "hunter3"))


def test_a_caller_without_a_credential_sends_none() -> None:
    def judge(answer: object) -> CloudError | None:
        return None

    dialect = OpenDialect("metadata", judge)
    signed = dialect.sign(Call(operation="Op", path="/a", query={"b": "c d"}), "host:1")
    assert (signed.target, signed.headers, signed.secrets) == ("/a?b=c%20d", {"host": "host:1"}, ())
    assert not dialect.refused(AccessDenied("no", status=401), None)


def test_call_uses_new_keys_if_its_keys_expire_in_the_queue() -> None:
    used: list[str] = []
    issued: list[float] = []

    async def fetch(deadline: float) -> Issued[Keys]:
        issued.append(time.time())
        return Issued(Keys(f"key-{len(issued)}", "hunter2", "hunter3"), time.time() + 10)

    def answer(request: httpx.Request) -> httpx.Response:
        used.append(request.headers["key"].partition("/")[0])
        return httpx.Response(200, json={})

    async def main() -> None:
        transport = Transport(
            account=Account("test", CallLimits(requests_per_second=0.05, concurrency=1)),
            http=HttpSettings(trust_env=False),
            observe=lambda attempt: None,
            send=httpx.MockTransport(answer),
        )
        client = transport.client("http://api.test", Signed("api", Refreshable("keys", fetch, margin=900)))
        deadline = asyncio.get_running_loop().time() + 300
        calls = (client.call(Call(operation="Op", path="/"), deadline=deadline) for _ in range(2))
        await asyncio.gather(*calls)
        assert time.time() - issued[0] > 10

    run_stepped(main)
    assert len(used) == 2
    assert used[1] != used[0] == "key-1"
