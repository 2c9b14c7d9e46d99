"""What providers of one account share, and what throttling does to one account and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk
from tests.transport.rig import EchoDialect, Script, TopJitter, json_answer
from trainfleet_exporter.errors import CloudError, Throttled
from trainfleet_exporter.polling import Poll, Schedule
from trainfleet_exporter.transport import (
    CALLER,
    Account,
    ApiClient,
    Attempt,
    Call,
    CallLimits,
    HttpAnswer,
    HttpSettings,
    Transport,
)


class _Dialect(EchoDialect):
    """Wait hints are milliseconds, and a pace comes in a header."""

    def __init__(self, api: str) -> None:
        super().__init__()
        self.api = api

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        if answer.status == 429:
            hint, pace = answer.headers.get("x-acs-retry-after"), answer.headers.get("x-pace")
            return Throttled(
                "too many",
                status=429,
                retry_after=float(hint) / 1000 if hint else None,
                pace=float(pace) if pace else None,
            )
        return super().judge(answer)


class _Provider:
    """A transport of its own with a client for each API, on an account that may be shared."""

    def __init__(self, account: Account, answer: Callable[[httpx.Request], Any], *apis: str) -> None:
        self.attempts: list[Attempt] = []
        self.transport = Transport(
            account=account,
            http=HttpSettings(trust_env=False),
            observe=self.attempts.append,
            send=httpx.MockTransport(answer),
            random=TopJitter(),
        )
        self.clients: dict[str, ApiClient] = {
            api: self.transport.client(f"http://{api}.test", _Dialect(api)) for api in apis
        }

    async def call(self, api: str, within: float = 50) -> Any:
        deadline = asyncio.get_running_loop().time() + within
        return await self.clients[api].call(Call(operation="ListJobs", path="/"), deadline=deadline)

    async def attempt(self, api: str, within: float = 50) -> CloudError | None:
        try:
            await self.call(api, within)
        except CloudError as error:
            return error
        return None


def _account(rate: float = 1000) -> Account:
    return Account("main", CallLimits(requests_per_second=rate, concurrency=4))


def test_cancelled_attempt_is_billed_and_waiting_one_is_not() -> None:
    async def main() -> None:
        async def hang(_: httpx.Request) -> httpx.Response:
            await asyncio.sleep(3600)
            raise AssertionError

        provider = _Provider(Account("main", CallLimits(concurrency=1)), hang, "dlc")
        tasks = [asyncio.create_task(provider.call("dlc")) for _ in range(2)]
        await asyncio.sleep(1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert len(provider.attempts) == 1

    run_stepped(main)


@pytest.mark.parametrize("hint", [None, "1"])
def test_throttled_attempts_stay_below_110_percent_of_calls(hint: str | None) -> None:
    """Two providers of one account, three APIs, each healthy for a while: its savings are spent, and no more."""

    async def main() -> None:
        throttling = False

        def answer(_: httpx.Request) -> httpx.Response:
            headers = {"x_acs_retry_after": hint} if hint else {}
            return json_answer(429, **headers) if throttling else json_answer(200)

        account, apis = _account(), ("dlc", "cloudmonitor", "paistudio")
        providers = [_Provider(account, answer, *apis) for _ in range(2)]
        calls = 0

        async def all_of_them() -> None:
            nonlocal calls
            targets = [(provider, api) for provider in providers for api in apis]
            results = await asyncio.gather(*(provider.attempt(api) for provider, api in targets))
            # What the pause refused unsent is a call that made no attempt.
            calls += len(results)

        for _ in range(30):
            await all_of_them()
        throttling = True
        for _ in range(200):
            await all_of_them()
            await asyncio.sleep(20)
        attempts = sum(len(provider.attempts) for provider in providers)
        assert calls == 230 * 6
        assert attempts <= 1.1 * calls
        throttled = sum(attempt.outcome == "throttled" for provider in providers for attempt in provider.attempts)
        assert throttled > 500  # it did go on trying

    run_stepped(main)


def test_only_the_throttled_api_slows_down_for_the_account() -> None:
    async def main() -> None:
        account = _account(rate=8)
        first = _Provider(account, Script(httpx.Response(429, headers={"x-pace": "1"}), 200), "dlc", "aiworkspace")
        second = _Provider(account, Script(200), "dlc")
        assert isinstance(await first.attempt("dlc"), Throttled)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        times = []
        for _ in range(4):
            await second.call("dlc")
            times.append(loop.time())
        assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([1, 1, 1])
        started = loop.time()
        await asyncio.gather(*(first.call("aiworkspace") for _ in range(8)))
        assert loop.time() == started

    run_stepped(main)


@pytest.mark.long
def test_ten_accounts_of_which_one_is_throttled() -> None:
    """The other nine keep their interval; the throttled one obeys its hint to the millisecond, and recovers."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        throttled_at: list[float] = []
        answered: dict[int, list[float]] = {number: [] for number in range(10)}
        rigs, clients = [], []

        def answer_for(number: int) -> Callable[[httpx.Request], httpx.Response]:
            def answer(_: httpx.Request) -> httpx.Response:
                if number == 3 and 600 <= loop.time() < 606 and len(throttled_at) < 2:
                    throttled_at.append(loop.time())
                    return json_answer(429, x_acs_retry_after="4321")
                answered[number].append(loop.time())
                return json_answer(200)

            return answer

        def sweep_of(provider: _Provider) -> Bulk:
            async def run(poll: Poll) -> None:
                async with poll.part("a") as part:
                    for _ in range(20):
                        call = Call(operation="DescribeMetricLast", path="/")
                        await provider.clients["cloudmonitor"].call(call, deadline=poll.deadline)
                    caller = CALLER.get()
                    assert caller is not None
                    assert caller.collector == "usage"
                    await part.publish(count("a"))

            return Bulk(name="usage", interval=60, run=run)

        for number in range(10):
            account = Account(str(number), CallLimits(requests_per_second=5, concurrency=4))
            clients.append(_Provider(account, answer_for(number), "cloudmonitor"))
            rigs.append(Rig(sweep_of(clients[-1])))
        schedule = Schedule([rig.runner for rig in rigs])
        schedule.start()
        await asyncio.sleep(599)
        before = answered[3].copy()
        await asyncio.sleep(3000)
        await schedule.stop()
        for number, rig in enumerate(rigs):
            assert rig.own("collector_success") == 1
            assert rig.own("collector_interval_seconds") == 60
            if number != 3:
                assert answered[number] == pytest.approx([time + 60 * n for n in range(60) for time in before[:20]])
                assert rig.own("collector_errors_total", reason="throttled") is None
        hinted = [time for time in answered[3] if time >= 600]
        assert throttled_at == pytest.approx([600, 604.321], abs=1e-3)
        assert hinted[0] == pytest.approx(608.642, abs=1e-3)
        # Half the rate twice: slower for a while, and after half an hour as fast as ever.
        slow = [time - hinted[0] for time in hinted[:20]]
        assert slow[-1] > 12
        last = [time - answered[3][-20] for time in answered[3][-20:]]
        assert last == pytest.approx([time - before[0] for time in before[:20]], abs=0.05)

    run_stepped(main)
