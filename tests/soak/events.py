"""The events of a day: faults, reloads, rotations and visitors, in an order that a seed decides.

Every day has the same events at other times, so that two days differ only in what the exporter keeps of them. The
clouds are open for the first 21 hours. In the last three hours, no job is submitted, and nothing fails.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import httpx

from tests.soak.site import USER, Site, Wish
from tests.soak.visitors import Unsatisfied, Visitor
from trainfleet_simulator import Fault

HOUR = 3600.0
OPEN_HOURS = 21
_FIRST = 0.5 * HOUR
_LAST = 20.0 * HOUR
"""Seconds of the day until which temporary events happen. They end an hour before the clouds close."""
_SHUT = "refused"
_FAULTS: Sequence[tuple[str, str]] = (
    ("throttled", ""),
    ("throttled_hint", "dlc"),
    ("server_error", ""),
    ("bad_gateway", "modelarts"),
    ("hang", "dlc"),
    ("hang", "modelarts"),
    ("reset", ""),
    ("close", "dlc"),
    ("reset_midway", "modelarts"),
    ("cut_off", ""),
    ("not_http", "aom"),
    ("denied", "dlc"),
    ("denied", "modelarts"),
    ("truncated", ""),
    ("wrong_types", ""),
    ("one_bad_row", ""),
    ("gzip_broken", "dlc"),
    ("hostile_strings", "modelarts"),
    ("unknown_words", "dlc"),
    ("half_list", ""),
    ("nan", "cloudmonitor"),
    ("throttled", "sagemaker"),
    ("hang", "cloudwatch"),
    ("wrong_types", "sagemaker"),
    (_SHUT, ""),
)
"""The kinds of a day's faults, each with its API, or for all of them."""
_RELOADS: Sequence[tuple[str, Wish | None]] = (
    ("other labels", Wish(labels=("team", "project"))),
    ("longer intervals", Wish(labels=("team", "project"), pace=1.5)),
    ("a broken file", None),
    ("a provider removed", Wish(has_modelarts=False)),
    ("the provider added again, with a password", Wish(by_password=True)),
    ("a broken file", None),
    ("keys in place of the password", Wish()),
    ("nothing new", Wish()),
)
"""A day's reloads, in this order. The day ends with the config of its start."""
_ROTATIONS = ("files at once", "files late", "tokens revoked", "user renewed")
_BAD_GUESTS = 3 * OPEN_HOURS


class Troublemaker:
    """Makes the events of a week. `done` counts them by kind. `complaints` has the errors."""

    def __init__(self, site: Site, seed: int, scrape_interval: float) -> None:
        self.done: Counter[str] = Counter()
        self.complaints: Counter[str] = Counter()
        self._site = site
        self._seed = seed
        self._scrape_interval = scrape_interval
        self._visitor = Visitor(site.port, USER)
        self._visitor.password = site.password
        self._scrapes = 0
        self._last_wish = Wish()

    async def day(self, number: int, hours: float = 24.0) -> None:
        """Let one day pass, or its first hours. Afterwards, no connection of a visitor is open."""
        loop = asyncio.get_running_loop()
        dawn = loop.time()
        rng = Random(f"{self._seed}/{number}")
        agenda = sorted(self._agenda(rng, min(hours, OPEN_HOURS) / OPEN_HOURS), key=lambda entry: entry[0])
        self._site.close_clouds(False)
        scraping = asyncio.create_task(self._scrape_on())
        under_way: set[asyncio.Task[None]] = set()
        try:
            for at, event in agenda:
                await asyncio.sleep(max(0.0, dawn + at - loop.time()))
                task = asyncio.create_task(self._run(event, rng))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.sleep(max(0.0, dawn + min(hours, OPEN_HOURS) * HOUR - loop.time()))
            self._site.close_clouds(True)
            await asyncio.sleep(max(0.0, dawn + hours * HOUR - loop.time()))
        finally:
            scraping.cancel()
            await asyncio.wait([scraping, *under_way])
            await self._visitor.close()

    def _agenda(self, rng: Random, share: float) -> list[tuple[float, Callable[[Random], Awaitable[None]]]]:
        """Return the events with their seconds of the day. On a shorter day, all of them are earlier."""
        agenda: list[tuple[float, Callable[[Random], Awaitable[None]]]] = []

        def spread(events: Sequence[Callable[[Random], Awaitable[None]]]) -> None:
            step = (_LAST - _FIRST) * share / len(events)
            agenda.extend(
                ((_FIRST * share) + step * (place + rng.uniform(0.0, 0.2)), event) for place, event in enumerate(events)
            )

        spread([self._fault(kind, api) for kind, api in rng.sample(_FAULTS, len(_FAULTS))])
        spread([self._reload(name, wish) for name, wish in _RELOADS])
        spread([self._rotation(name) for name in rng.sample(_ROTATIONS, len(_ROTATIONS))])
        spread([self._bad_guest] * max(round(_BAD_GUESTS * share), 3))
        return agenda

    async def _run(self, event: Callable[[Random], Awaitable[None]], rng: Random) -> None:
        try:
            await event(rng)
        except Exception as error:  # noqa: BLE001 - one more thing that went wrong; the week goes on
            self.complaints[f"{type(error).__name__}: {error}"[:200]] += 1

    async def _scrape_on(self) -> None:
        while True:
            await asyncio.sleep(self._scrape_interval)
            await self._run(self._look, Random(0))

    async def _look(self, _: Random) -> None:
        self._scrapes += 1
        if self._scrapes % 30 == 0:
            await self._visit("/", "/config", "/-/healthy", "/-/ready", "/nowhere")
        way = await self._visitor.scrape(self._scrapes)
        self.done[f"scrape: {way}"] += 1

    async def _visit(self, *paths: str) -> None:
        for path in paths:
            answer = await self._visitor.ask(path)
            expected = 404 if path == "/nowhere" else 200
            if answer.status_code != expected:
                raise Unsatisfied(f"{path}: {answer.status_code}")
            self.done[f"page: {path}"] += 1

    def _fault(self, kind: str, api: str) -> Callable[[Random], Awaitable[None]]:
        async def happen(rng: Random) -> None:
            self.done[f"fault: {kind}"] += 1
            seconds, faults = rng.uniform(1.1, 1.4) * self._site.often, self._site.simulator.faults
            if kind == _SHUT:
                self._site.door.shut()
                await asyncio.sleep(seconds)
                self._site.door.open()
                return
            # As by `POST /faults`, which cannot be reached while the listener is closed.
            faults.replace([Fault({"api": api} if api else {}, kind=kind)])
            await asyncio.sleep(seconds)
            faults.clear()

        return happen

    def _reload(self, name: str, wish: Wish | None) -> Callable[[Random], Awaitable[None]]:
        async def happen(rng: Random) -> None:
            before = (await self._visitor.ask("/config")).content
            if wish is None:
                self._site.break_config()
            else:
                self._site.wish(wish)
            if rng.random() < 0.5:
                self._site.daemon.request_reload()  # the same as a SIGHUP
                await asyncio.sleep(20)
            else:
                self._check_outcome(wish, await self._visitor.ask("/-/reload", method="POST"))
            is_other = (await self._visitor.ask("/config")).content != before
            if is_other != (wish is not None and wish != self._last_wish):
                raise Unsatisfied(f"reload ({name}): the config in use is {'another' if is_other else 'the same'}")
            self._last_wish = wish or self._last_wish
            self.done[f"reload: {name}"] += 1

        return happen

    @staticmethod
    def _check_outcome(wish: Wish | None, answer: httpx.Response) -> None:
        if answer.status_code != (500 if wish is None else 200):
            raise Unsatisfied(f"reload: {answer.status_code} {answer.content!r}")

    def _rotation(self, name: str) -> Callable[[Random], Awaitable[None]]:
        async def happen(rng: Random) -> None:
            site = self._site
            match name:
                case "files at once":
                    site.rotate(rng)
                    site.hand_out_keys()
                case "files late":
                    site.rotate(rng)
                    await asyncio.sleep(1.5 * site.often)
                    site.hand_out_keys()
                case "tokens revoked":
                    site.simulator.tokens.revoke_all()
                case _:
                    site.renew_user(rng)
                    await asyncio.sleep(0)
                    await self._become_known()
            self.done[f"rotation: {name}"] += 1

        return happen

    async def _become_known(self) -> None:
        """Check that the new password is accepted and the old one is not, some seconds after the file changed."""
        visitor, old = self._visitor, self._visitor.password
        other = Visitor(self._site.port, USER)
        other.password = self._site.password
        for _ in range(20):
            if (await other.ask("/-/healthy")).status_code == 200:
                break
            await asyncio.sleep(1)
        visitor.password = self._site.password
        other.password = old
        if (status := (await other.ask("/-/healthy")).status_code) != 401:
            raise Unsatisfied(f"the password before is answered {status}")

    async def _bad_guest(self, rng: Random) -> None:
        name, come = rng.choice(
            [
                ("leaves amid an answer", self._visitor.leave_amid),
                ("reads slowly", self._visitor.read_slowly),
                ("talks nonsense", lambda: self._visitor.talk_nonsense(rng)),
            ]
        )
        await come()
        self.done[f"bad guest: {name}"] += 1
