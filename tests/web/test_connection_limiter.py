"""Which connection is closed at the limit."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from tests.support.logs import line_of
from trainfleet_exporter.web.connection_limiter import ConnectionLimiter, Slot


class _Server:
    """Open connections by name, and those that were closed."""

    def __init__(self, limit: int) -> None:
        self.limiter = ConnectionLimiter(limit)
        self.open: dict[str, tuple[str, Slot]] = {}
        self.closed: list[str] = []

    def connect(self, name: str, address: str = "192.0.2.1") -> bool:
        slot = self.limiter.admit(address)
        if slot is None:
            return False
        slot.close = lambda: self._closed(name)
        self.open[name] = address, slot
        return True

    def _closed(self, name: str) -> None:
        self.closed.append(name)
        del self.open[name]

    def answer(self, *names: str) -> None:
        for name in names:
            self.open[name][1].begin_answer()

    def stall(self, *names: str) -> None:
        for name in names:
            self.open[name][1].stall()


def _within_a_loop(work: object) -> None:
    async def main() -> None:
        await work()  # type: ignore[operator]

    run_stepped(main)


def test_the_longest_idle_connection_is_replaced() -> None:
    async def main() -> None:
        server = _Server(8)
        assert all(server.connect(name) for name in "abcd")
        server.answer("a", "c")
        server.open["a"][1].end_answer()  # answered, and waits again: for less long than the others
        assert [server.connect(name) for name in "efg"] == [True, True, True]
        assert server.closed == ["b", "d", "a"]
        assert len(server.limiter) == 4

    _within_a_loop(main)


def test_an_answer_under_way_is_kept_for_30_seconds() -> None:
    async def main() -> None:
        server = _Server(4)
        assert server.connect("a")
        assert server.connect("b")
        server.answer("a", "b")
        assert not server.connect("c")
        await asyncio.sleep(29)
        assert not server.connect("c")
        await asyncio.sleep(2)
        assert server.connect("c")
        assert server.closed == ["a"]
        assert server.connect("d")  # c waits
        assert server.closed == ["a", "c"]

    _within_a_loop(main)


def test_a_stalled_connection_is_replaced_by_its_own_client() -> None:
    async def main() -> None:
        server = _Server(12)
        assert all(server.connect(name) for name in "abcdef")
        server.answer(*"abcdef")
        server.stall("a", "b", "c")
        server.open["b"][1].resume()  # reads on
        await asyncio.sleep(1)
        assert server.connect("new")
        assert server.closed == ["a"]
        await asyncio.sleep(1)
        server.stall("b")
        assert server.connect("newer")  # before the others, which have waited for less long
        assert server.connect("newest")
        assert server.closed == ["a", "c", "new"]
        server.answer("newer", "newest")
        assert server.connect("latest")
        assert server.closed == ["a", "c", "new", "b"]
        server.answer("latest")
        assert not server.connect("too many")  # all others take their answers

    _within_a_loop(main)


def test_a_connection_stalled_for_10_seconds_goes_first() -> None:
    async def main() -> None:
        server = _Server(8)
        assert all(server.connect(name) for name in ("prometheus", *"abc"))
        await asyncio.sleep(1)
        server.answer("a", "b")
        server.stall("a")
        await asyncio.sleep(5)
        server.stall("b")
        await asyncio.sleep(5)
        assert server.connect("d")
        assert server.closed == ["a"]
        assert server.connect("e")  # b has stalled for five seconds only
        assert server.closed == ["a", "prometheus"]

    _within_a_loop(main)


def test_a_stalled_connection_of_any_client_is_replaced() -> None:
    async def main() -> None:
        server = _Server(4)
        for number in range(4):
            assert server.connect(f"stranger {number}", f"2001:db8:0:{number}::1")
            server.answer(f"stranger {number}")
            server.stall(f"stranger {number}")
            await asyncio.sleep(1)
        assert not server.connect("prometheus", "192.0.2.1")
        await asyncio.sleep(6)
        assert server.connect("prometheus", "192.0.2.1")
        assert server.closed == ["stranger 0"]
        server.answer("prometheus")
        await asyncio.sleep(10)
        assert not server.connect("second", "192.0.2.1")  # it has as many as each of the others

    _within_a_loop(main)


def test_an_answer_that_was_written_whole_leaves_it_idle() -> None:
    async def main() -> None:
        server = _Server(4)
        assert server.connect("a")
        slot = server.open["a"][1]
        slot.resume()
        slot.stall()
        assert server.connect("b")
        server.answer("a", "b")
        server.stall("a")
        slot.end_answer()
        slot.stall()
        slot.resume()
        server.stall("b")
        assert server.connect("c")
        assert server.closed == ["a"]  # which has waited since before b stalled

    _within_a_loop(main)


def test_the_client_that_has_most_loses_one() -> None:
    async def main() -> None:
        server = _Server(6)
        for number in range(3):
            assert server.connect(f"greedy {number}", "192.0.2.1")
            assert server.connect(f"other {number}", "192.0.2.2")
        server.answer("greedy 0", "greedy 1", "greedy 2", "other 0", "other 1", "other 2")
        assert server.connect("prometheus", "192.0.2.3")
        assert server.closed == ["greedy 0"]
        assert server.connect("second", "192.0.2.3")
        assert server.closed == ["greedy 0", "other 0"]
        assert server.connect("third", "192.0.2.3")  # no client has more than the others: its own oldest is closed
        assert server.closed == ["greedy 0", "other 0", "prometheus"]

    _within_a_loop(main)


def test_many_addresses_do_not_displace_a_known_client() -> None:
    async def main() -> None:
        server = _Server(8)
        assert server.connect("prometheus", "192.0.2.1")
        server.answer("prometheus")
        server.open["prometheus"][1].end_answer()
        for number in range(7):
            await asyncio.sleep(1)
            assert server.connect(f"stranger {number}", f"2001:db8:0:{number}::1")
        assert server.connect("grafana", "192.0.2.2")
        for number in range(7, 20):
            assert server.connect(f"stranger {number}", f"2001:db8:0:{number}::1")
        assert server.closed[:7] == [f"stranger {number}" for number in range(7)]  # who came first
        assert "prometheus" not in server.closed
        server.answer(*(name for name in server.open if name != "prometheus"))
        assert not server.connect("too many", "192.0.2.3")  # each of them is being answered, and has one

    _within_a_loop(main)


def test_releasing_twice_does_no_harm() -> None:
    async def main() -> None:
        server = _Server(4)
        assert server.connect("first")
        first = server.open["first"][1]
        first.release()  # being broken off, before its connection is lost
        assert server.connect("second")
        first.release()
        assert server.connect("third")
        assert server.connect("fourth")
        assert server.closed == ["second"]
        assert len(server.limiter) == 2

    _within_a_loop(main)


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
        ("", "192.0.2.1", False),
    ],
)
def test_addresses_of_one_client(one: str, other: str, are_one: bool) -> None:
    async def main() -> None:
        server = _Server(2)
        assert server.connect("one", one)
        assert server.connect("other", other)
        assert server.closed == (["one"] if are_one else [])

    _within_a_loop(main)


def test_the_limit_is_logged_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        server = _Server(2)
        for number in range(100):
            server.connect(str(number))
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        server.connect("later")

    with caplog.at_level(logging.INFO):
        _within_a_loop(main)
    reported = [line_of(record) for record in caplog.records if record.name.startswith("trainfleet")]
    facts = 'limit=2 limit_per_client=1 action="close inactive connections"'
    assert reported == [f"connection limit reached {facts}"] * 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["connect", "begin_answer", "stall", "resume", "end_answer", "release", "sleep"]),
            st.integers(0, 4),
        ),
        max_size=80,
    )
)
def test_limits_hold_and_no_client_loses_to_a_larger_one(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        server = _Server(6)
        known: set[str] = set()
        stalled: dict[str, float] = {}
        late: list[Slot] = []
        for number, (step, which) in enumerate(steps):
            names = [name for name, (address, _) in server.open.items() if address == f"192.0.2.{which}"]
            match step:
                case "connect":
                    before = Counter(address for address, _ in server.open.values())
                    of = {name: address for name, (address, _) in server.open.items()}
                    gone = len(server.closed)
                    came = server.connect(str(number), f"192.0.2.{which}")
                    own = before[f"192.0.2.{which}"]
                    assert came or own == 3 or before.total() == 6
                    for name in server.closed[gone:]:
                        more = before[of[name]] - own
                        is_slow = name in stalled and asyncio.get_running_loop().time() - stalled[name] >= 10
                        may_go = more == 1 and (name not in known or is_slow)
                        assert of[name] == f"192.0.2.{which}" or more > 1 or may_go
                case "sleep":
                    await asyncio.sleep(20)
                case _ if names:
                    slot = server.open[names[0]][1]
                    getattr(slot, step)()
                    if step == "stall":
                        stalled.setdefault(names[0], asyncio.get_running_loop().time())
                    elif step in ("resume", "end_answer"):
                        stalled.pop(names[0], None)
                    if step == "begin_answer":
                        known.add(names[0])
                    if step == "release":
                        del server.open[names[0]]
                        late.append(slot)
                    elif late:
                        late.pop(0).release()  # once more, later
            counts = Counter(address for address, _ in server.open.values())
            assert len(server.limiter) == counts.total() <= 6
            assert max(counts.values(), default=0) <= 3
        for _, slot in list(server.open.values()):
            slot.release()
        assert len(server.limiter) == 0
        assert not server.limiter._counts

    _within_a_loop(main)
