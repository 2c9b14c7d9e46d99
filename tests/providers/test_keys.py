"""Keys of every cloud: rotation of files, refresh ahead of the end, refusals, failures, and a library that hangs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from tests.transport.rig import JSON_OK, raw_server
from trainfleet_exporter.config import Global, Secret
from trainfleet_exporter.errors import AccessDenied, CloudError, LeaseLost, RequestTimedOut, Throttled, Unreachable
from trainfleet_exporter.process.redaction import redact, remember
from trainfleet_exporter.providers.aws_sagemaker.api import AwsDialect
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.key_search import KeyHttp, OpenDialect
from trainfleet_exporter.providers.keys import FetchedKeys, GivenKeys, Keys
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, Call, CallLimits, HttpAnswer, HttpSettings, Transport

HOUR = 3600.0


@dataclass
class Source:
    """A source of keys that live an hour. `errors` are raised first, one a fetch."""

    lifetime: float | None = HOUR
    errors: list[CloudError] = field(default_factory=list)
    fetches: int = 0
    hold: asyncio.Event | None = None

    async def fetch(self, deadline: float) -> Keys:
        self.fetches += 1
        if self.hold is not None:
            await self.hold.wait()
        if self.errors:
            raise self.errors.pop(0)
        end = None if self.lifetime is None else time.time() + self.lifetime
        number = self.fetches if self.lifetime else 0
        return Keys(f"id-{number}", f"secret-{number}", expires=end, origin="here")

    def credential(self) -> FetchedKeys:
        return FetchedKeys("p", "somewhere", self.fetch, clock=time.time)


def _soon() -> float:
    return asyncio.get_running_loop().time() + 20


async def _outcome(credential: FetchedKeys) -> str:
    try:
        return (await credential.keys(_soon())).access_key_id
    except CloudError as error:
        return error.reason


TIMES: dict[str, tuple[list[float], list[str]]] = {
    "fresh": ([600, 600], ["id-1", "id-1", "id-1"]),
    "refreshed ahead of the end": ([2699, 2], ["id-1", "id-1", "id-2"]),
    "ended": ([2 * HOUR], ["id-1", "id-2"]),
}


@pytest.mark.parametrize("name", TIMES)
async def test_keys_are_refreshed_ahead_of_their_end(name: str) -> None:
    waits, expected = TIMES[name]

    credential = Source().credential()
    found = [await _outcome(credential)]
    for wait in waits:
        await asyncio.sleep(wait)
        found.append(await _outcome(credential))
    assert found == expected


FAILURES: dict[str, tuple[CloudError, float]] = {
    "a refusal": (AccessDenied("no"), 300),
    "a failure": (Unreachable("no"), 30),
    "a wish to wait": (Throttled("no", retry_after=120), 120),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_failed_fetch_is_repeated_after_a_pause(name: str) -> None:
    error, pause = FAILURES[name]

    source = Source(errors=[error])
    credential = source.credential()
    assert [await _outcome(credential) for _ in range(5)] == [error.reason] * 5
    await asyncio.sleep(pause - 1)
    assert await _outcome(credential) == error.reason
    assert source.fetches == 1
    await asyncio.sleep(2)
    assert await _outcome(credential) == "id-2"


@pytest.mark.parametrize("error", [LeaseLost("no"), RequestTimedOut("the poll ends").not_attempted()])
async def test_call_that_was_not_sent_makes_no_pause(error: CloudError) -> None:
    source = Source(errors=[error])
    credential = source.credential()
    assert [await _outcome(credential), await _outcome(credential)] == [error.outcome, "id-2"]


async def test_failed_refresh_keeps_valid_keys_to_their_end(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    credential = source.credential()
    await _outcome(credential)
    source.errors = [Unreachable("no")] * 100
    await asyncio.sleep(3000)
    assert await _outcome(credential) == "id-1"
    assert source.fetches == 2
    await asyncio.sleep(601)
    assert await _outcome(credential) == "network"
    assert "cannot refresh the credential" in caplog.text


async def test_one_fetch_runs_at_a_time() -> None:
    source = Source(hold=asyncio.Event())
    credential = source.credential()
    calls = [asyncio.create_task(_outcome(credential)) for _ in range(20)]
    await asyncio.sleep(1)
    assert source.hold is not None
    source.hold.set()
    assert set(await asyncio.gather(*calls)) == {"id-1"}
    source.hold.clear()
    await asyncio.sleep(2800)
    refresh = asyncio.create_task(_outcome(credential))
    await asyncio.sleep(1)
    assert await _outcome(credential) == "id-1"  # due, but valid
    source.hold.set()
    assert await refresh == "id-2"


async def test_refused_keys_are_replaced_once_in_five_minutes() -> None:
    source = Source()
    credential = source.credential()
    keys = await credential.keys(_soon())
    assert credential.refused(keys)
    assert credential.refused(keys)  # another call, with the same old keys
    young = await credential.keys(_soon())
    assert young.access_key_id == "id-2"
    assert not credential.refused(young)
    assert await _outcome(credential) == "id-2"
    await asyncio.sleep(301)
    assert credential.refused(young)
    assert await _outcome(credential) == "id-3"


async def test_permanent_keys_are_looked_up_again_later() -> None:
    source = Source(lifetime=None)
    credential = source.credential()
    keys = await credential.keys(_soon())
    await asyncio.sleep(301)
    assert await credential.keys(_soon()) == keys
    assert source.fetches == 2
    assert credential.expires is None


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("text", ["", "two\nlines", "\u200binvisible", "end "])
def test_unusable_part_is_refused_by_name(part: int, text: str) -> None:
    parts = ["id", "secret", "token"]
    parts[part] = text
    if part == 2 and not text:
        return
    with pytest.raises(AccessDenied) as caught:
        Keys(parts[0], parts[1], parts[2], origin="profile x")
    assert f"the {('key id', 'secret', 'security token')[part]} of profile x cannot be used" in str(caught.value)


async def test_keys_stay_redacted_while_they_are_used() -> None:
    credential = Source().credential()
    await credential.keys(_soon())
    remember(*(f"newer-secret-{number}" for number in range(1000)))
    credential.current()
    assert redact("rejected secret-1") == "rejected <secret>"


async def test_keys_that_have_ended_blame_the_clock() -> None:
    with pytest.raises(AccessDenied, match="check the clock of this machine"):
        await Source(lifetime=-1.0).credential().keys(_soon())


@pytest.mark.parametrize("changed", [["id"], ["secret", "token"], ["id", "secret", "token"]])
def test_replaced_files_are_used_from_the_next_call_on(changed: list[str], tmp_path: Path) -> None:
    parts = {name: f"old-{name}" for name in ("id", "secret", "token")}
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
    credential = GivenKeys(*[Secret.from_file(tmp_path / name) for name in parts])
    used = credential.current()
    assert credential.current() == used
    assert not credential.refused(used)
    for name in changed:
        (tmp_path / name).write_text(f"new-{name}")
    assert credential.refused(used)
    assert credential.current().parts() == tuple({**parts, **{name: f"new-{name}" for name in changed}}.values())
    latest = credential.current()
    (tmp_path / "id").write_text("")  # it is being written
    assert credential.current() == latest


async def test_metadata_is_asked_without_the_proxy_and_others_with_it() -> None:
    through_proxy: list[str] = []

    def proxy(request: httpx.Request) -> httpx.Response:
        through_proxy.append(request.url.host)
        return httpx.Response(200, json={})

    account = Account("test", CallLimits())
    send, http = httpx.MockTransport(proxy), HttpSettings(trust_env=False)
    transport = Transport(account=account, http=http, observe=lambda attempt: None, send=send)
    context = BuildContext(settings=Global(), account=account, observe=lambda attempt: None)
    async with raw_server(JSON_OK) as machine:
        endpoints: dict[str, str] = {}
        asked = KeyHttp(transport, context, lambda api: f"http://{machine.address}", endpoints)
        asked.deadline = _soon()
        for api in ("metadata", "sts"):
            await asked.call(Call(operation="Get", path="/"), dict, OpenDialect(api, lambda answer: None))
        await asked.aclose()
        assert len(machine.heads) == 1
    assert through_proxy == ["127.0.0.1"]
    assert set(endpoints) == {"metadata", "sts"}


async def test_keys_are_blamed_also_where_the_date_is_wrong() -> None:
    source = Source()
    dialect = AwsDialect("sagemaker", "us-east-1", source.credential(), ServerClock())
    mark = await dialect.prepare(Call(operation="Search", path="/"), _soon())
    date = format_datetime(datetime.fromtimestamp(time.time() + HOUR, UTC), usegmt=True)
    error = dialect.judge(HttpAnswer(403, {"date": date}, b"{}", {"__type": "InvalidSignatureException"}))
    assert isinstance(error, AccessDenied)
    assert dialect.refused(error, mark)
    await dialect.prepare(Call(operation="Search", path="/"), _soon())
    assert source.fetches == 2
