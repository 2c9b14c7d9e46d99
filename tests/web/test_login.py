"""Who comes in with which password, and what a refusal gives away."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import Counter
from collections.abc import Mapping

import bcrypt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.clock import SteppedLoop, run_stepped
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.web.login import Logins, Verdict, credentials

USERS: Mapping[bytes, bytes] = {
    b"anna": bcrypt.hashpw(b"annas-secret", bcrypt.gensalt(4)),
    b"bert": bcrypt.hashpw(b"berts-secret", bcrypt.gensalt(5)),
}


def header(user: bytes, password: bytes, scheme: bytes = b"Basic ") -> list[bytes]:
    return [scheme + base64.b64encode(user + b":" + password)]


@given(
    st.binary().filter(lambda user: b":" not in user), st.binary(), st.sampled_from([b"Basic ", b"basic ", b"BASIC  "])
)
@example(b"", b"", b"Basic ")
@example(b"anna", b"a:b:", b"Basic ")
def test_what_a_client_encodes_is_read_back(user: bytes, password: bytes, scheme: bytes) -> None:
    assert credentials(header(user, password, scheme)) == (user, password)


@given(st.lists(st.binary(), max_size=2))
@example([b"Basic"])
@example([b"Basic YW5uYQ=="])  # no colon
@example([b"Basic YTpi!"])
@example([b"Basic YTpi YTpi"])
@example([b"Basic YTpiYw"])  # padding missing
@example([b"Basic \xff\xfe"])
@example([b"Basic YTpi", b"Basic YTpi"])
@example([b"Bearer YTpi"])
@example([b"YTpi"])
def test_anything_else_is_no_login_and_no_error(headers: list[bytes]) -> None:
    found = credentials(headers)
    if found is not None:
        encoded = base64.b64encode(b":".join(found)).rstrip(b"=")
        assert len(headers) == 1
        assert headers[0].lower().startswith(b"basic ")
        # The last letter may hold bits that are not read.
        assert headers[0][6:].strip(b" ").rstrip(b"=")[:-1] == encoded[:-1]


@given(st.text(alphabet="ABCabc123+/=: \t\x00é", max_size=40))
def test_nearly_base64(token: str) -> None:
    credentials([b"Basic " + token.encode()])


HERE = "192.0.2.1"


def judge(logins: Logins, user: bytes, password: bytes, users: Mapping[bytes, bytes] = USERS) -> Verdict:
    return run_stepped(lambda: logins.check(users, header(user, password), HERE))


class Counted:
    """bcrypt as it is, with its calls counted: passwords and hashes that were compared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[bytes, bytes]] = []
        real = bcrypt.checkpw

        def check(password: bytes, hashed: bytes) -> bool:
            self.calls.append((password, hashed))
            return real(password, hashed)

        monkeypatch.setattr(bcrypt, "checkpw", check)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


@pytest.mark.parametrize(
    ("user", "password", "expected"),
    [
        (b"anna", b"annas-secret", Verdict.ADMITTED),
        (b"bert", b"berts-secret", Verdict.ADMITTED),
        (b"anna", b"berts-secret", Verdict.REFUSED),
        (b"anna", b"annas-secret\0", Verdict.REFUSED),
        (b"anna", b"", Verdict.REFUSED),
        (b"Anna", b"annas-secret", Verdict.REFUSED),
        (b"", b"annas-secret", Verdict.REFUSED),
        (b"carl", b"annas-secret", Verdict.REFUSED),
        (b"\xff", b"annas-secret", Verdict.REFUSED),
    ],
)
def test_which_logins_are_admitted(user: bytes, password: bytes, expected: Verdict) -> None:
    assert judge(Logins(), user, password) is expected


@pytest.mark.parametrize("kind", [b"$2a$", b"$2b$", b"$2y$"])
def test_hashes_of_other_tools(kind: bytes) -> None:
    users = {b"anna": kind + USERS[b"anna"][4:]}
    assert judge(Logins(), b"anna", b"annas-secret", users) is Verdict.ADMITTED
    assert judge(Logins(), b"anna", b"berts-secret", users) is Verdict.REFUSED


def test_a_password_of_72_bytes_is_the_longest(counted: Counted) -> None:
    users = {b"anna": bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))}
    assert judge(Logins(), b"anna", b"x" * 72, users) is Verdict.ADMITTED
    assert judge(Logins(), b"anna", b"x" * 73, users) is Verdict.REFUSED
    assert len(counted.calls) == 2  # which took its time as well


def test_a_verified_password_is_not_verified_again(counted: Counted) -> None:
    logins = Logins()
    for _ in range(3):
        assert judge(logins, b"anna", b"annas-secret") is Verdict.ADMITTED
        assert judge(logins, b"bert", b"berts-secret") is Verdict.ADMITTED
    assert len(counted.calls) == 2
    assert judge(logins, b"anna", b"berts-secret") is Verdict.REFUSED
    assert judge(logins, b"anna", b"berts-secret") is Verdict.REFUSED
    assert len(counted.calls) == 4


def test_a_changed_hash_ends_what_is_remembered(counted: Counted) -> None:
    logins = Logins()
    assert judge(logins, b"anna", b"annas-secret") is Verdict.ADMITTED
    changed = {b"anna": bcrypt.hashpw(b"another-secret", bcrypt.gensalt(4))}
    assert judge(logins, b"anna", b"annas-secret", changed) is Verdict.REFUSED
    assert judge(logins, b"anna", b"another-secret", changed) is Verdict.ADMITTED
    only_bert = {b"bert": USERS[b"bert"]}
    assert judge(logins, b"anna", b"annas-secret", only_bert) is Verdict.REFUSED
    assert judge(logins, b"bert", b"berts-secret", only_bert) is Verdict.ADMITTED
    assert logins._verified.keys() == {b"bert"}  # nothing is kept of who is no user any more


def test_nothing_that_is_remembered_is_a_password() -> None:
    logins = Logins()
    judge(logins, b"anna", b"annas-secret")
    assert b"annas-secret" not in b"".join(logins._verified.values())
    other = Logins()
    judge(other, b"anna", b"annas-secret")
    assert logins._verified.keys() == other._verified.keys() == {b"anna"}
    assert logins._verified != other._verified


def test_an_unknown_user_costs_the_same_check(counted: Counted) -> None:
    logins = Logins()
    names = [f"user{number}".encode() for number in range(40)]
    for _ in range(2):
        for name in names:
            assert judge(logins, name, b"annas-secret") is Verdict.REFUSED
    costs = [hashed[:7] for _, hashed in counted.calls]
    assert set(costs) == {b"$2b$04$", b"$2b$05$"}  # those of the users that there are
    assert costs[:40] == costs[40:]  # and always the same for a name, as for a user that exists


def test_an_unknown_user_is_never_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, hashed: True)
    logins = Logins()
    for _ in range(2):
        assert judge(logins, b"carl", b"annas-secret") is Verdict.REFUSED


def test_one_login_at_a_time_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once: list[int] = []
    running = 0
    real = bcrypt.checkpw

    def check(password: bytes, hashed: bytes) -> bool:
        nonlocal running
        running += 1
        at_once.append(running)
        try:
            return real(password, hashed)
        finally:
            running -= 1

    monkeypatch.setattr(bcrypt, "checkpw", check)

    async def main() -> list[Verdict]:
        logins = Logins()
        wrong = [logins.check(USERS, header(b"anna", f"guess{number}".encode()), HERE) for number in range(31)]
        right = [logins.check(USERS, header(b"bert", b"berts-secret"), HERE) for _ in range(5)]
        verdicts = await asyncio.gather(*wrong, *right)
        assert await logins.check(USERS, header(b"bert", b"berts-secret"), HERE) is Verdict.ADMITTED
        return verdicts

    verdicts = run_stepped(main)
    assert verdicts == [Verdict.REFUSED] * 31 + [Verdict.ADMITTED] * 2 + [Verdict.BUSY] * 3
    assert at_once == [1] * 32  # the second of bert's found what the first had proved


def test_addresses_take_turns_and_none_waits_for_a_whole_queue(counted: Counted) -> None:
    async def main() -> list[bytes]:
        logins = Logins()
        wrong = [
            asyncio.create_task(logins.check(USERS, header(b"anna", b"guess"), f"192.0.2.{2 + number % 8}"))
            for number in range(8 * 40)
        ]
        await asyncio.sleep(0)
        assert await logins.check(USERS, header(b"bert", b"berts-secret"), HERE) is Verdict.ADMITTED
        before = [password for password, _ in counted.calls]
        assert Counter(await asyncio.gather(*wrong)) == {
            Verdict.REFUSED: 8 * 32 + 1,  # one is checked while 32 wait
            Verdict.BUSY: 8 * 8 - 1,
        }
        return before

    assert run_stepped(main) == [b"guess"] * 8 + [b"berts-secret"]  # one of each address that came before


def test_an_address_without_a_wrong_password_goes_first(counted: Counted) -> None:
    async def main() -> None:
        logins = Logins()
        wrong = [
            asyncio.create_task(logins.check(USERS, header(b"anna", b"guess"), f"192.0.2.{2 + number % 64}"))
            for number in range(128)
        ]
        await asyncio.wait(wrong[:64])  # one of each address
        assert await logins.check(USERS, header(b"bert", b"berts-secret"), HERE) is Verdict.ADMITTED
        assert len(counted.calls) <= 66  # one was under way
        assert set(await asyncio.gather(*wrong)) == {Verdict.REFUSED}

    run_stepped(main)


def test_a_right_password_makes_up_for_a_wrong_one(counted: Counted) -> None:
    async def main() -> None:
        logins = Logins()
        for user, password in ((b"anna", b"guess"), (b"anna", b"annas-secret")):
            await logins.check(USERS, header(user, password), HERE)
        others = [f"192.0.2.{2 + number}" for number in range(64)]
        for other in others:
            await logins.check(USERS, header(b"anna", b"guess"), other)
        wrong = [asyncio.create_task(logins.check(USERS, header(b"anna", b"guess"), other)) for other in others]
        await asyncio.sleep(0)
        before = len(counted.calls)
        assert await logins.check(USERS, header(b"bert", b"berts-secret"), HERE) is Verdict.ADMITTED
        assert len(counted.calls) <= before + 2
        await asyncio.gather(*wrong)

    run_stepped(main)


def test_wrong_addresses_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bcrypt, "checkpw", lambda password, hashed: False)

    async def main() -> None:
        logins = Logins()
        for number in range(1100):
            await logins.check(USERS, header(b"anna", b"guess"), f"2001:db8:0:{number}::/64")
        assert len(logins._queue._wrong) == 1024

    run_stepped(main)


def test_a_known_user_does_not_wait_for_logins_of_others(counted: Counted) -> None:
    async def main() -> None:
        logins = Logins()
        bert = header(b"bert", b"berts-secret")
        assert await logins.check(USERS, bert, HERE) is Verdict.ADMITTED
        wrong = [asyncio.create_task(logins.check(USERS, header(b"bert", b"guess"), HERE)) for _ in range(40)]
        await asyncio.sleep(0)
        checks = len(counted.calls)
        assert await logins.check(USERS, bert, HERE) is Verdict.ADMITTED
        assert len(counted.calls) == checks
        assert Verdict.ADMITTED not in await asyncio.gather(*wrong)

    run_stepped(main)


def test_wrong_passwords_use_half_a_core_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        began: list[float] = []

        def check(password: bytes, hashed: bytes) -> bool:
            began.append(loop.time())
            loop.jump(2.0)
            return password == b"berts-secret"

        monkeypatch.setattr(bcrypt, "checkpw", check)
        monkeypatch.setattr(time, "thread_time", loop.time)
        logins = Logins()
        passwords = [b"guess", b"guess", b"berts-secret"]
        await asyncio.gather(*(logins.check(USERS, header(b"bert", password), HERE) for password in passwords))
        await logins.check(USERS, header(b"anna", b"guess"), HERE)
        assert began == [0.0, 4.0, 8.0, 10.0]  # after a right password the next check is at once
        await asyncio.sleep(60)
        await logins.check(USERS, header(b"anna", b"guess"), HERE)
        assert began[-1] == loop.time() - 2.0  # what was rested for long is no debt

    run_stepped(main)


def test_a_login_that_is_given_up_keeps_no_turn(counted: Counted) -> None:
    async def main() -> None:
        logins = Logins()
        running, waiting, last = (
            asyncio.create_task(logins.check(USERS, header(b"anna", b"guess"), HERE)) for _ in range(3)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        await running
        last.cancel()  # which has its turn by now
        await asyncio.wait([waiting, last])
        assert waiting.cancelled()
        assert last.cancelled()
        assert await logins.check(USERS, header(b"bert", b"berts-secret"), HERE) is Verdict.ADMITTED

    run_stepped(main)


def test_without_a_thread_new_logins_are_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(DaemonThreadExecutor, "submit", fail)
    assert judge(Logins(), b"anna", b"annas-secret") is Verdict.BUSY
