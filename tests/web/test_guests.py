"""Who must go when there are too many."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.web.guests import Guest, Guests


class _House:
    """Guests, and who was broken off."""

    def __init__(self, limit: int) -> None:
        self.guests = Guests(limit)
        self.here: dict[str, tuple[str, Guest]] = {}
        self.gone: list[str] = []

    def come(self, name: str, address: str = "192.0.2.1") -> bool:
        guest = self.guests.admit(address)
        if guest is None:
            return False
        guest.end = lambda: self._end(name)
        self.here[name] = address, guest
        return True

    def _end(self, name: str) -> None:
        self.gone.append(name)
        del self.here[name]

    def serve(self, *names: str) -> None:
        for name in names:
            self.here[name][1].serve()

    def stall(self, *names: str) -> None:
        for name in names:
            self.here[name][1].stall()


def _within_a_loop(work: object) -> None:
    async def main() -> None:
        await work()  # type: ignore[operator]

    run_stepped(main)


def test_the_one_that_waited_longest_makes_room() -> None:
    async def main() -> None:
        house = _House(8)
        assert all(house.come(name) for name in "abcd")
        house.serve("a", "c")
        house.here["a"][1].wait()  # answered, and waits again: for less long than the others
        assert [house.come(name) for name in "efg"] == [True, True, True]
        assert house.gone == ["b", "d", "a"]
        assert len(house.guests) == 4

    _within_a_loop(main)


def test_who_is_served_stays_for_a_while_and_newcomers_are_turned_away() -> None:
    async def main() -> None:
        house = _House(4)
        assert house.come("a")
        assert house.come("b")
        house.serve("a", "b")
        assert not house.come("c")
        await asyncio.sleep(29)
        assert not house.come("c")
        await asyncio.sleep(2)
        assert house.come("c")
        assert house.gone == ["a"]
        assert house.come("d")  # c waits
        assert house.gone == ["a", "c"]

    _within_a_loop(main)


def test_who_reads_nothing_makes_room_for_the_same_client() -> None:
    async def main() -> None:
        house = _House(12)
        assert all(house.come(name) for name in "abcdef")
        house.serve(*"abcdef")
        house.stall("a", "b", "c")
        house.here["b"][1].flow()  # reads on
        await asyncio.sleep(1)
        house.stall("b")
        assert house.come("new")
        assert house.gone == ["a"]
        assert house.come("newer")  # before the others, which have waited for less long
        assert house.come("newest")
        assert house.gone == ["a", "c", "new"]
        house.serve("newer", "newest")
        assert house.come("latest")
        assert house.gone == ["a", "c", "new", "b"]
        house.serve("latest")
        assert not house.come("too many")  # all others take their answers

    _within_a_loop(main)


def test_who_read_nothing_for_ten_seconds_goes_before_who_waits() -> None:
    async def main() -> None:
        house = _House(8)
        assert all(house.come(name) for name in ("prometheus", *"abc"))
        await asyncio.sleep(1)
        house.serve("a", "b")
        house.stall("a")
        await asyncio.sleep(5)
        house.stall("b")
        await asyncio.sleep(5)
        assert house.come("d")
        assert house.gone == ["a"]
        assert house.come("e")  # b has stalled for five seconds only
        assert house.gone == ["a", "prometheus"]

    _within_a_loop(main)


def test_who_read_nothing_for_ten_seconds_goes_wherever_it_comes_from() -> None:
    async def main() -> None:
        house = _House(4)
        for number in range(4):
            assert house.come(f"stranger {number}", f"2001:db8:0:{number}::1")
            house.serve(f"stranger {number}")
            house.stall(f"stranger {number}")
            await asyncio.sleep(1)
        assert not house.come("prometheus", "192.0.2.1")
        await asyncio.sleep(6)
        assert house.come("prometheus", "192.0.2.1")
        assert house.gone == ["stranger 0"]
        house.serve("prometheus")
        await asyncio.sleep(10)
        assert not house.come("second", "192.0.2.1")  # it has as many as each of the others

    _within_a_loop(main)


def test_an_answer_that_was_written_whole_is_no_longer_under_way() -> None:
    async def main() -> None:
        house = _House(4)
        assert house.come("a")
        guest = house.here["a"][1]
        guest.flow()
        guest.stall()
        assert house.come("b")
        house.serve("a", "b")
        house.stall("a")
        guest.wait()
        guest.stall()
        guest.flow()
        house.stall("b")
        assert house.come("c")
        assert house.gone == ["a"]  # which has waited since before b stalled

    _within_a_loop(main)


def test_who_has_many_makes_room_for_who_has_few() -> None:
    async def main() -> None:
        house = _House(6)
        for number in range(3):
            assert house.come(f"greedy {number}", "192.0.2.1")
            assert house.come(f"other {number}", "192.0.2.2")
        house.serve("greedy 0", "greedy 1", "greedy 2", "other 0", "other 1", "other 2")
        assert house.come("prometheus", "192.0.2.3")
        assert house.gone == ["greedy 0"]
        assert house.come("second", "192.0.2.3")
        assert house.gone == ["greedy 0", "other 0"]
        assert house.come("third", "192.0.2.3")  # nobody has more any more: its own makes room
        assert house.gone == ["greedy 0", "other 0", "prometheus"]

    _within_a_loop(main)


def test_strangers_of_many_addresses_make_room_and_who_is_known_stays() -> None:
    async def main() -> None:
        house = _House(8)
        assert house.come("prometheus", "192.0.2.1")
        house.serve("prometheus")
        house.here["prometheus"][1].wait()
        for number in range(7):
            await asyncio.sleep(1)
            assert house.come(f"stranger {number}", f"2001:db8:0:{number}::1")
        assert house.come("grafana", "192.0.2.2")
        for number in range(7, 20):
            assert house.come(f"stranger {number}", f"2001:db8:0:{number}::1")
        assert house.gone[:7] == [f"stranger {number}" for number in range(7)]  # who came first
        assert "prometheus" not in house.gone
        house.serve(*(name for name in house.here if name != "prometheus"))
        assert not house.come("too many", "192.0.2.3")  # each of them is being answered, and has one

    _within_a_loop(main)


def test_who_leaves_late_takes_nobody_along() -> None:
    async def main() -> None:
        house = _House(4)
        assert house.come("first")
        first = house.here["first"][1]
        first.leave()  # being broken off, before its connection is lost
        assert house.come("second")
        first.leave()
        assert house.come("third")
        assert house.come("fourth")
        assert house.gone == ["second"]
        assert len(house.guests) == 2

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
        house = _House(2)
        assert house.come("one", one)
        assert house.come("other", other)
        assert house.gone == (["one"] if are_one else [])

    _within_a_loop(main)


def test_it_is_told_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        house = _House(2)
        for number in range(100):
            house.come(str(number))
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        house.come("later")

    with caplog.at_level(logging.INFO):
        _within_a_loop(main)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("trainfleet")]
    shortage = "more connections than are allowed (2, of one address 1): who waits longest is cut off"
    assert told == [f"{shortage}; told once while it lasts"] * 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["come", "serve", "stall", "flow", "wait", "leave", "sleep"]), st.integers(0, 4)),
        max_size=80,
    )
)
def test_there_are_never_more_than_may_be_and_nobody_loses_to_who_has_more(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        house = _House(6)
        known: set[str] = set()
        stalled: dict[str, float] = {}
        late: list[Guest] = []
        for number, (step, which) in enumerate(steps):
            names = [name for name, (address, _) in house.here.items() if address == f"192.0.2.{which}"]
            match step:
                case "come":
                    before = Counter(address for address, _ in house.here.values())
                    of = {name: address for name, (address, _) in house.here.items()}
                    gone = len(house.gone)
                    came = house.come(str(number), f"192.0.2.{which}")
                    own = before[f"192.0.2.{which}"]
                    assert came or own == 3 or before.total() == 6
                    for name in house.gone[gone:]:
                        more = before[of[name]] - own
                        is_slow = name in stalled and asyncio.get_running_loop().time() - stalled[name] >= 10
                        may_go = more == 1 and (name not in known or is_slow)
                        assert of[name] == f"192.0.2.{which}" or more > 1 or may_go
                case "sleep":
                    await asyncio.sleep(20)
                case _ if names:
                    guest = house.here[names[0]][1]
                    getattr(guest, step)()
                    if step == "stall":
                        stalled.setdefault(names[0], asyncio.get_running_loop().time())
                    elif step in ("flow", "wait"):
                        stalled.pop(names[0], None)
                    if step == "serve":
                        known.add(names[0])
                    if step == "leave":
                        del house.here[names[0]]
                        late.append(guest)
                    elif late:
                        late.pop(0).leave()  # once more, later
            counts = Counter(address for address, _ in house.here.values())
            assert len(house.guests) == counts.total() <= 6
            assert max(counts.values(), default=0) <= 3
        for _, guest in list(house.here.values()):
            guest.leave()
        assert len(house.guests) == 0
        assert not house.guests._clients

    _within_a_loop(main)
