"""What a refusal means, and which one another credential could mend."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import START
from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.providers.huawei_modelarts.auth import AccessKeys, Identity
from trainfleet_exporter.providers.huawei_modelarts.dialect import HuaweiDialect, OpenDialect, judge
from trainfleet_exporter.providers.huawei_modelarts.profiles import ProfileFile
from trainfleet_exporter.providers.huawei_modelarts.sources import FileKeys, GivenKeys
from trainfleet_exporter.providers.huawei_modelarts.temporary import leased_keys
from trainfleet_exporter.providers.key_files import KeyFiles
from trainfleet_exporter.transport import Call, HttpAnswer


def refusal(
    status: int = 401, message: str = "Incorrect IAM authentication information", *, date: str = "", code: str = ""
) -> CloudError:
    """What an answer of the gateway's is judged to be, at the start of stepped time."""
    payload = {"error_code": code or "APIGW.0301", "error_msg": message}
    headers = httpx.Headers({"date": date} if date else {})
    with time_machine.travel(START, tick=False):
        error = judge(HttpAnswer(status, headers, json.dumps(payload).encode(), payload))
    assert error is not None
    return error


@pytest.mark.parametrize("seconds", [-960, 960, 86400])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_from_another_time_is_about_the_clock(seconds: int, status: int) -> None:
    error = refusal(status, "verify aksk signature fail", date=formatdate(START + seconds, usegmt=True))
    assert isinstance(error, AccessDenied)
    minutes = abs(seconds) // 60
    assert error.message.startswith(
        f"the clock of this machine is off by {minutes} minutes: here it is 2026-01-02T03:04:05Z, there it is 2026-01-0"
    )


BEYOND = "Fri, 31 Dec 9999 23:59:59 -0100"  # the year 10000 here, which nothing can be told in


@pytest.mark.parametrize(
    "date", ["", "soon", "Fri, 99 Jan 2026 03:04:05 GMT", BEYOND, formatdate(START + 899, usegmt=True)]
)
def test_a_refusal_from_about_now_or_from_no_known_time_is_not(date: str) -> None:
    assert refusal(message="verify aksk signature fail", date=date).message == "verify aksk signature fail"


def test_a_gateway_that_says_so_is_believed() -> None:
    message = refusal(message="x-sdk-date is out of its range").message
    assert message == "the clock of this machine is off: here it is 2026-01-02T03:04:05Z, there it is unknown"


def test_the_access_key_that_a_refusal_names_is_not_repeated() -> None:
    assert refusal(message="ak HSTA44319FA276FD6647 not exist").message == "ak <secret> not exist"


class _Keys:
    """A source whose credential can always be had anew."""

    origin = "a test"
    expires = None

    async def prepare(self, deadline: float) -> object:
        return 1

    def current(self) -> AccessKeys:
        return AccessKeys("ak", "sk")

    def refused(self, mark: object) -> bool:
        return mark == 1


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (refusal(), True),
        (refusal(403, code="APIGW.0307"), True),
        (refusal(403, code="ModelArts.0203"), True),
        (refusal(403, code="ModelArts.2784"), True),
        (refusal(403, code="ModelArts.0108"), False),
        (refusal(date=formatdate(START + 960, usegmt=True)), False),
    ],
    ids=["signature", "token", "ModelArts.0203", "ModelArts.2784", "a right that is missing", "the clock"],
)
def test_another_credential_is_worth_a_try_only_where_the_credential_was_refused(
    error: AccessDenied, again: bool
) -> None:
    identity = Identity(_Keys(), region="cn-north-4", project_id="p", endpoints={})
    assert HuaweiDialect("modelarts", identity).refused(error, 1) is again
    assert HuaweiDialect("modelarts", identity).refused(error, 2) is False
    assert OpenDialect("sts").refused(error, 1) is False


def test_who_has_no_credential_yet_sends_none() -> None:
    dialect = OpenDialect("metadata", {"X-Metadata-Token": "planted"})
    signed = dialect.sign(Call(operation="GetSecurityKey", path="/a", query={"b": "c d"}), "host:1")
    assert (signed.target, signed.headers) == ("/a?b=c%20d", {"host": "host:1", "X-Metadata-Token": "planted"})
    assert "planted" not in repr(dialect) + repr(signed)


def test_keys_of_a_file_are_tried_again_only_after_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("[basic]\nak = a\nsk = b\n")
    file = ProfileFile(path, "basic", "file")
    source = FileKeys(file.origin, KeyFiles([path], file.read), lambda parts: parts[0].keys)
    mark = asyncio.run(source.prepare(0))
    assert not source.refused(mark)
    path.write_text("[basic]\nak = other\nsk = other\n")
    assert source.refused(mark)
    assert source.current().access_key == "other"
    path.unlink()
    assert not source.refused(asyncio.run(source.prepare(0)))


def test_keys_do_not_print_even_their_id() -> None:
    assert "planted" not in repr(AccessKeys("planted-id", "planted-secret", "planted-token"))


def test_keys_that_are_given_are_the_only_ones() -> None:
    source = GivenKeys("config file", AccessKeys("a", "b"))
    assert not source.refused(asyncio.run(source.prepare(0)))
    assert source.expires is None


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
moments = st.sampled_from(["2026-01-02T04:04:05Z", "2026-01-02T04:04:05.000001Z", "2026-01-02T02:04:05Z", "soon"])


@given(told=st.fixed_dictionaries({}, optional=dict.fromkeys("abc", anything) | {"d": anything | moments}))
def test_an_answer_is_a_whole_key_that_lives_or_it_is_told(told: dict[str, object]) -> None:
    reason = ""
    with time_machine.travel(START, tick=False):
        try:
            leased = leased_keys(told, ("a", "b", "c", "d"), operation="GetSecurityKey")
        except CloudError as error:
            reason = str(error)
    if reason:
        assert reason.startswith("GetSecurityKey: the ")
    else:
        assert leased.expires > START
        keys = leased.value
        assert all(part.strip() for part in (keys.access_key, keys.secret_key, keys.security_token or ""))
