"""Calls whose credentials have to be had first, and answers that are text."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.transport.rig import Rig, Script
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestRefused, Unreachable
from trainfleet_exporter.transport import Call, TextForm


def test_credentials_are_prepared_once_for_all_attempts() -> None:
    async def main() -> None:
        rig = Rig(Script(*[200] * 10, 503, 503, 200))
        for _ in range(10):
            await rig.call()
        assert rig.dialect.prepared == 10
        await rig.failure()  # two attempts: ten calls have saved up one retry
        assert rig.outcomes[10:] == ["server", "server"]
        assert rig.dialect.prepared == 11

    run_stepped(main)


@pytest.mark.parametrize("status", [401, 403])
def test_a_call_whose_credentials_ended_goes_again_with_new_ones(status: int) -> None:
    async def main() -> None:
        rig = Rig(Script(status, 200))
        rig.dialect.outdated.add(1)
        assert await rig.call() == {"Jobs": []}
        assert rig.dialect.prepared == 2
        assert rig.outcomes == ["auth", "ok"]
        assert rig.dialect.signed == ["signature-1", "signature-2"]

    run_stepped(main)


def test_repeatedly_refused_credentials_are_not_renewed_forever() -> None:
    async def main() -> None:
        rig = Rig(Script(403))
        rig.dialect.outdated.update(range(100))
        assert isinstance(await rig.failure(), AccessDenied)
        assert (rig.dialect.prepared, rig.outcomes) == (2, ["auth", "auth"])

    run_stepped(main)


def test_valid_credentials_are_not_renewed_after_a_refusal() -> None:
    async def main() -> None:
        rig = Rig(Script(403, 200))
        assert isinstance(await rig.failure(), AccessDenied)
        assert (rig.dialect.prepared, rig.outcomes) == (1, ["auth"])

    run_stepped(main)


def test_call_without_credentials_fails_before_sending() -> None:
    async def main() -> None:
        rig = Rig(Script(200))

        async def prepare(call: Call, deadline: float) -> object:
            raise Unreachable("no answer from the token service")

        rig.dialect.prepare = prepare  # type: ignore[method-assign]  # a dialect whose token cannot be had
        error = await rig.failure("GetJob")
        assert str(error) == "GetJob: no answer from the token service"
        assert rig.attempts == []

    run_stepped(main)


def test_preparing_knows_the_deadline() -> None:
    async def main() -> None:
        rig = Rig(Script(200))
        seen: list[float] = []

        async def prepare(call: Call, deadline: float) -> object:
            seen.append(deadline - asyncio.get_running_loop().time())
            return None

        rig.dialect.prepare = prepare  # type: ignore[method-assign]  # as above
        await rig.call(within=7)
        assert seen == [7]

    run_stepped(main)


ROLE = TextForm("the name of a role", re.compile(r"[a-z-]+"))


@pytest.mark.parametrize("body", [b"ecs-role", b"ecs-role\n", b"  ecs-role  "])
def test_text_of_the_form_that_was_asked_for_is_returned(body: bytes) -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(200, content=body))
        assert await rig.call(text=ROLE) == "ecs-role"
        assert rig.outcomes == ["ok"]

    run_stepped(main)


@pytest.mark.parametrize("body", [b"", b'{"a": 1}', b"<html>", "Größe".encode(), b"\xff\xfe", b"two words"])
def test_other_text_is_no_answer(body: bytes) -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(200, content=body))
        error = await rig.failure(text=ROLE)
        assert isinstance(error, BadAnswer)
        assert "the answer is not the name of a role" in str(error)
        assert rig.outcomes == ["bad_answer"]

    run_stepped(main)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"1"])
def test_json_that_is_no_object_is_no_answer(body: bytes) -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(200, content=body))
        error = await rig.failure()
        assert isinstance(error, BadAnswer)
        assert "JSON but no object" in str(error)
        assert rig.outcomes == ["bad_answer"]

    run_stepped(main)


@pytest.mark.parametrize("kind", [NotFound, RequestRefused])
def test_who_has_no_credentials_is_denied_whatever_was_not_found(kind: type[CloudError]) -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(200, json={}))

        async def prepare(call: Call, deadline: float) -> object:
            raise kind("no such role", operation="AssumeRole", status=404, code="EntityNotExist.Role")

        rig.dialect.prepare = prepare  # type: ignore[method-assign]  # as above
        error = await rig.failure()
        assert isinstance(error, AccessDenied)
        assert str(error) == "AssumeRole: HTTP 404 EntityNotExist.Role no such role"
        assert rig.outcomes == []

    run_stepped(main)


def test_text_is_no_answer_where_json_is_expected() -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(200, content=b"ecs-role"))
        assert isinstance(await rig.failure(), BadAnswer)

    run_stepped(main)


@pytest.mark.parametrize("status", [302, 400])
def test_plain_text_of_a_bad_answer_is_no_answer(status: int) -> None:
    async def main() -> None:
        rig = Rig(lambda _: httpx.Response(status, content=b"moved", headers={"location": "http://other.test/"}))
        assert isinstance(await rig.failure(text=ROLE), RequestRefused)

    run_stepped(main)


def test_a_long_refusal_is_looked_at_as_far_as_its_beginning() -> None:
    async def main() -> None:
        secret = "planted-token-of-a-request"
        body = b'{"message": "refused ' + secret.encode() + b'", "padding": "' + b"x" * 5_000_000 + b'"}'
        rig = Rig(lambda _: httpx.Response(400, content=body))
        error = await rig.failure(secrets=(secret,))
        assert isinstance(error, RequestRefused)
        assert secret not in str(error)

    run_stepped(main)
