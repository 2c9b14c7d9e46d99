"""Random schedules of crashes, stops, partitions and clock jumps, and the judge who watches who polls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.lease.api_server import ApiServer, kubernetes
from tests.lease.processes import Process, World
from trainfleet_exporter.lease import Elector, KubernetesLease

SECONDS = 80.0
"""Simulated seconds of one schedule."""
_POLL_SECONDS = 0.7


@dataclass
class Verdict:
    """What the judge saw in one schedule."""

    overlaps: list[str] = field(default_factory=list)
    blind: float = 0.0
    """The longest time in which no exporter polled, although one could all the time since the holder was lost."""
    polls: int = 0
    takeovers: int = 0


class Exporter:
    """An exporter in a simulated process: its elector, and polls as long as that allows them."""

    def __init__(self, world: World, process: Process, lease: KubernetesLease, judge: Judge) -> None:
        self.process = process
        self.healthy_since: float | None = 0.0
        self.elector = Elector(lease, process.name, self._changed, clock=lambda: world.now)
        self._judge = judge
        self._election = process.start(self.elector.run())
        process.start(self._poll())

    def _changed(self, leads: bool) -> None:
        self._judge.verdict.takeovers += leads

    async def _poll(self) -> None:
        while True:
            if self.elector.may_poll:
                self._judge.polled(self)
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """End in good order."""
        self._election.cancel()
        await asyncio.wait([self._election])
        await self.elector.resign()
        self.process.kill()


class Judge:
    """Watches all exporters: two never may poll at a time, and the time without a poller is short."""

    def __init__(self, world: World) -> None:
        self.verdict = Verdict()
        self.exporters: list[Exporter] = []
        self.world = world
        self._covered = 0.0
        """Until when an exporter may have polled, or none could."""

    def polled(self, exporter: Exporter) -> None:
        self.verdict.polls += 1
        self.look(exporter)

    def look(self, polled: Exporter | None = None) -> None:
        """Look at everybody, after each thing that happens."""
        now = self.world.now
        polling = [each for each in self.exporters if each.process.is_running and each.elector.may_poll]
        if len(polling) > 1:
            names = ", ".join(each.process.name for each in polling)
            self.verdict.overlaps.append(f"{now:.3f}: {names} may poll")
        able = [
            each.healthy_since for each in self.exporters if each.healthy_since is not None and each.process.is_alive
        ]
        if polling:
            self._covered = now
        elif able:
            begin = max(self._covered, min(able), self.world.lost_at)
            self.verdict.blind = max(self.verdict.blind, now - begin)


def play(seed: int, exporters: int) -> Verdict:
    """Play one schedule."""
    chance = random.Random(f"kubernetes {exporters} {seed}")
    world = World()
    judge = Judge(world)
    server = ApiServer(world.note_holder)

    def start(name: str) -> None:
        process = Process(world, name)
        lease = kubernetes(world, process, server, random.Random(f"{seed} {name}"))
        exporter = Exporter(world, process, lease, judge)
        exporter.healthy_since = None if server.rejects or server.rejects_writes else world.now
        judge.exporters.append(exporter)

    for number in range(exporters):
        start(f"e{number}")
    trouble = _Trouble(judge, server, chance, start)
    when = chance.uniform(5, 20)
    while when < SECONDS - 20:
        world.at(when, trouble.strike)
        when += chance.uniform(1, 25)
    try:
        world.run(SECONDS, judge.look)
    finally:
        world.close()
    return judge.verdict


class _Trouble:
    """What happens to exporters and to the place of the lease."""

    def __init__(self, judge: Judge, server: ApiServer, chance: random.Random, start: Callable[[str], None]) -> None:
        self._world, self._judge, self._server, self._chance = judge.world, judge, server, chance
        self._start = start
        self._born = 10

    def strike(self) -> None:
        """Let one thing happen, to the exporter that polls more often than to another."""
        alive = [each for each in self._judge.exporters if each.process.is_running]
        leaders = [each for each in alive if each.elector.may_poll]
        if not alive:
            return
        victim = self._chance.choice(leaders if leaders and self._chance.random() < 0.7 else alive)
        if victim.process.name == self._world.holder:
            self._world.lost_at = self._world.now
        kinds = [
            self._crash,
            self._end,
            self._pause,
            self._pause,
            self._cut,
            self._cut,
            self._jump,
            self._refuse,
            self._refuse_writes,
            self._delete,
        ]
        self._chance.choice(kinds)(victim)

    def _span(self) -> float:
        return self._chance.choice([0.5, 3.0, 7.0, 8.5, 9.5, 10.5, 13.0, 25.0]) * self._chance.uniform(0.8, 1.2)

    def _crash(self, victim: Exporter) -> None:
        victim.process.kill()
        victim.healthy_since = None
        self._born += 1
        name = f"e{self._born}"
        self._world.after(self._chance.uniform(0.5, 20), lambda: self._start(name))

    def _end(self, victim: Exporter) -> None:
        victim.healthy_since = None
        victim.process.start(victim.stop())
        self._born += 1
        name = f"e{self._born}"
        self._world.after(self._chance.uniform(0.5, 20), lambda: self._start(name))

    def _pause(self, victim: Exporter) -> None:
        victim.process.is_stopped = True
        victim.healthy_since = None

        def go_on() -> None:
            victim.process.is_stopped = False
            self._heal(victim)

        self._world.after(self._span(), go_on)

    def _cut(self, victim: Exporter) -> None:
        victim.process.is_cut_off = True
        victim.healthy_since = None

        def join() -> None:
            victim.process.is_cut_off = False
            self._heal(victim)

        self._world.after(self._span(), join)

    def _heal(self, victim: Exporter) -> None:
        process = victim.process
        if process.is_running and not process.is_cut_off and not self._server.rejects | self._server.rejects_writes:
            victim.healthy_since = self._world.now

    def _jump(self, victim: Exporter) -> None:
        self._world.wall_offset += self._chance.choice([-86400, -30, 30, 3600, 86400 * 400])

    def _refuse(self, victim: Exporter) -> None:
        """The API server rejects everything for a while, as it does with a right that was taken away."""
        self._server.rejects = self._chance.choice([403, 500, 503, 429])
        self._relent_later()

    def _refuse_writes(self, victim: Exporter) -> None:
        """The API server lets exporters read for a while, and rejects writes. With 409 it names no other writer."""
        self._server.rejects_writes = self._chance.choice([403, 409, 500])
        self._relent_later()

    def _relent_later(self) -> None:
        for each in self._judge.exporters:
            each.healthy_since = None

        def relent() -> None:
            self._server.rejects = self._server.rejects_writes = 0
            for each in self._judge.exporters:
                self._heal(each)

        self._world.after(self._span(), relent)

    def _delete(self, victim: Exporter) -> None:
        """Delete the lease. Exporters wait from then on."""
        self._server.leases.clear()
        for each in self._judge.exporters:
            if each.healthy_since is not None:
                each.healthy_since = self._world.now
