"""Faults over whole HTTP that answer something else than the operation promises: every operation of both clouds."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.simulator.client import START
from tests.simulator.rig import Heard, Rig
from trainfleet_simulator import KINDS
from trainfleet_simulator.fault_kinds import BODY, HTTP, IDENTITY

TEXTS = {"pai PutToken", "pai ListRamRoles", "modelarts GetMetadataToken"}
"""Answered in plain text: there is no JSON to break."""
MAY_BE_EMPTY = {"modelarts ShowTrainingJobMetrics", "modelarts ShowPodMetricStatistic"}
ONE_THING = {
    "pai AssumeRole",
    "pai AssumeRoleWithOIDC",
    "pai GetRamRoleCredentials",
    "pai GetCredentialsUri",
    "modelarts ShowTrainingJobDetails",
    "modelarts KeystoneCreateUserTokenByPassword",
    "modelarts AssumeAgencyWithOIDC",
    "modelarts GetSecurityKey",
}
"""Answers without rows."""
UNSIGNED = {
    "pai AssumeRoleWithOIDC",
    "pai PutToken",
    "pai ListRamRoles",
    "pai GetRamRoleCredentials",
    "pai GetCredentialsUri",
    "modelarts KeystoneCreateUserTokenByPassword",
    "modelarts AssumeAgencyWithOIDC",
    "modelarts GetMetadataToken",
    "modelarts GetSecurityKey",
}
"""No clock of the client's is in them."""
WITHOUT_CREDENTIALS = {"pai PutToken", "pai GetCredentialsUri", "modelarts GetMetadataToken"}
LOST_ROLES = {"pai ListRamRoles", "pai GetRamRoleCredentials", "modelarts GetSecurityKey"}
MANY = ("many_lists", "many_objects", "many_nans", "many_surrogates")
HEAVY = {"oversized", "gzip_bomb", "padded", *MANY}

Check = Callable[[Heard, Heard], Any]


def is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


def kind_of(value: Any) -> type:
    return float if type(value) is int else type(value)


def wrong_types(true: Heard, heard: Heard) -> bool:
    assert list(heard.body) == list(true.body)
    return all(kind_of(heard.body[name]) is not kind_of(value) for name, value in true.body.items())


def ungzips(heard: Heard) -> bool:
    assert heard.headers["content-encoding"] == "gzip"
    try:
        gzip.decompress(heard.raw)
    except (EOFError, gzip.BadGzipFile):
        return False
    return True


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


CHECKS: dict[str, Check] = {
    "bad_gateway": lambda _, heard: heard.status == 502 and b"<h1>502 Bad Gateway</h1>" in heard.raw,
    "no_content": lambda _, heard: (heard.status, heard.raw) == (204, b"") and "content-length" not in heard.headers,
    "empty": lambda _, heard: (heard.status, heard.raw, heard.headers["content-length"]) == (200, b"", "0"),
    "redirect": lambda _, heard: heard.status == 302 and heard.headers["location"].startswith("https://login."),
    "quoted": lambda _, heard: heard.status == 400 and (b"string to sign" in heard.raw or b"the body " in heard.raw),
    "quoted_at_length": lambda _, heard: (
        heard.status in (200, 400)
        and (len(heard.raw) > 2**14 or heard.headers["content-type"].startswith("text/plain"))
    ),
    "html": lambda _, heard: heard.status == 200 and heard.headers["content-type"].startswith("text/html"),
    "truncated": lambda true, heard: 0 < len(heard.raw) < len(true.raw) and not is_json(heard.raw),
    "wrong_top": lambda true, heard: isinstance(heard.body, list) and heard.body[0].keys() == true.body.keys(),
    "null": lambda _, heard: heard.raw == b"null",
    "wrong_types": wrong_types,
    "gzip_broken": lambda _, heard: not ungzips(heard),
    "gzip_false": lambda _, heard: not ungzips(heard) and is_utf8(heard.raw),
    "deep": lambda _, heard: heard.raw.startswith(b"[" * 100_000) and not is_json(heard.raw),
    "bad_utf8": lambda _, heard: not is_utf8(heard.raw) and is_utf8(heard.raw.replace(b"\xff\xfe\xc3(", b"")),
}
"""Whether the answer is what the kind is called, given the true one."""


@pytest.mark.parametrize("kind", CHECKS)
def test_every_operation_is_broken_as_the_kind_says(rig: Rig, kind: str) -> None:
    untouched = set()
    for name, (true, heard) in rig.everywhere(kind=kind).items():
        assert true.fault is None
        if heard.fault is None:
            untouched.add(name)
            assert (heard.status, heard.outcome) == (true.status, true.outcome)
            continue
        assert heard.fault == kind
        assert CHECKS[kind](true, heard), (name, heard.status, heard.raw[:200])
        length = heard.headers.get("content-length")
        assert length is None or int(length) == len(heard.raw)
        empty = kind in {"no_content", "empty"} and name in MAY_BE_EMPTY
        words = {"bad_gateway": "server", "redirect": "client", "quoted": "client", "quoted_at_length": "client"}
        assert heard.outcome == ("no_data" if empty else words.get(kind, "bad_answer")), name
    json_only = {"truncated", "wrong_top", "null", "wrong_types", "deep"}
    assert untouched == (TEXTS if kind in json_only else set())


def test_every_kind_of_body_and_http_is_looked_at() -> None:
    assert {*CHECKS, *HEAVY, *REFUSALS, "one_bad_row"} == {*HTTP, *BODY, *IDENTITY}
    assert all(meaning for meaning in KINDS.values())


@pytest.mark.parametrize("name", ["pai ListJobs", "modelarts ListTrainingJobs"])
def test_an_oversized_answer_is_fifty_megabytes_of_json(rig: Rig, name: str) -> None:
    _, heard = rig.one(name, kind="oversized")
    assert (heard.status, heard.outcome, heard.fault) == (200, "bad_answer", "oversized")
    assert len(heard.raw) == int(heard.headers["content-length"]) == 50_000_000
    assert json.loads(heard.raw[:100] + heard.raw[-2:]).keys() == {"padding"}
    assert set(heard.raw[12:-2]) == {ord("x")}


def test_a_gzip_bomb_is_a_megabyte_that_inflates_to_a_thousand(rig: Rig) -> None:
    _, heard = rig.one("modelarts ListPools", kind="gzip_bomb")
    assert heard.headers["content-encoding"] == "gzip"
    assert len(heard.raw) < 1_200_000
    inflater, size, last = zlib.decompressobj(31), 0, b""
    for start in range(0, len(heard.raw), 4096):
        last = inflater.decompress(heard.raw[start : start + 4096]) or last
        size += len(last) if last else 0
    assert inflater.eof  # the checksum was right
    assert size > 2**30
    assert last.endswith(b"{}")


@pytest.mark.parametrize("name", ["pai GetJob", "modelarts ListTrainingJobs", "pai PutToken"])
def test_padding_leaves_a_true_answer(rig: Rig, name: str) -> None:
    true, heard = rig.one(name, kind="padded")
    assert heard.outcome == true.outcome
    if name in TEXTS:
        assert heard.fault is None
        return
    assert (
        len(heard.raw) < 100_000
    )  # a large plain answer may wait for the kernel's buffers, which stepped time does not see
    plain = gzip.decompress(heard.raw)
    body = json.loads(plain)
    assert 240_000 < sum(map(plain.count, b",[{")) < 250_000
    assert len(body.pop("padding")) == 160_001
    assert body.keys() == true.body.keys()


@pytest.mark.parametrize("kind", MANY)
def test_fifty_kilobytes_that_inflate_to_millions_of_values(rig: Rig, kind: str) -> None:
    _, heard = rig.one("pai GetJob", kind=kind)
    assert heard.headers["content-encoding"] == "gzip"
    assert len(heard.raw) < 100_000
    body = gzip.decompress(heard.raw)
    assert 0 <= 32 * 2**20 - len(body) < 10
    assert sum(map(body.count, b",[{")) > 8_000_000
    assert body.endswith({"many_surrogates": b'"\\ud83d"]}', "many_nans": b"NaN]}"}.get(kind, b"]}"))


@pytest.mark.parametrize("name", ["pai ListJobs", "pai DescribeMetricLast", "modelarts ShowWorkloadStatistics"])
def test_one_bad_row_leaves_the_others_as_they_are(rig: Rig, name: str) -> None:
    true, heard = rig.one(name, kind="one_bad_row")
    before, after = rows(true.body), rows(heard.body)
    assert after[1:] == before[1:]
    assert list(after[0]) == list(before[0])
    assert all(kind_of(after[0][key]) is not kind_of(value) for key, value in before[0].items())
    assert (heard.outcome, heard.fault) == ("ok", "one_bad_row")


def rows(body: dict[str, Any]) -> list[dict[str, Any]]:
    if "Datapoints" in body:
        points: list[dict[str, Any]] = json.loads(body["Datapoints"])
        return points
    found: list[dict[str, Any]] = (
        body["Jobs"] if "Jobs" in body else body["statistics" if "statistics" in body else "statics"]["items"]
    )
    return found


def test_an_answer_without_rows_has_no_bad_one(rig: Rig) -> None:
    answers = rig.everywhere(kind="one_bad_row")
    assert {name for name, (_, heard) in answers.items() if heard.fault is None} == TEXTS | ONE_THING


REFUSALS = {
    "throttled": ("throttled", set()),
    "throttled_hint": ("throttled", set()),
    "server_error": ("server", set()),
    "denied": ("auth", set()),
    "not_found": ("not_found", set()),
    "skewed_clock": ("auth", UNSIGNED),
    "expired_credentials": ("auth", WITHOUT_CREDENTIALS),
    "revoked_credentials": ("auth", WITHOUT_CREDENTIALS),
}
"""What the refusal of a kind counts as, and the operations that have nothing to refuse for it."""


@pytest.mark.parametrize("kind", REFUSALS)
def test_refusals_are_the_clouds_own(rig: Rig, kind: str) -> None:
    outcome, untouched = REFUSALS[kind]
    found = rig.everywhere(kind=kind)
    assert {name for name, (_, heard) in found.items() if heard.fault is None} == untouched
    for name, (_, heard) in found.items():
        asking = rig.asking[name]
        if heard.fault is None:
            continue
        assert heard.status >= 400
        lost = kind == "revoked_credentials" and name in LOST_ROLES
        unpublished = kind == "not_found" and (b"APIGW.0101" in heard.raw or asking.api == "iam")
        assert heard.outcome == ("not_found" if lost else "client" if unpublished else outcome), (name, heard)
        if asking.api == "metadata":
            assert heard.headers["content-type"].startswith("text/plain")
        elif asking.cloud == "pai":
            assert heard.body.keys() == {"Code", "Message", "RequestId", "HostId", "Recommend"}
        else:
            assert heard.body.keys() & {"error_code", "error", "errorType"}, heard.body
        assert b"told to fail" not in heard.raw


def test_the_words_of_the_clouds(rig: Rig) -> None:
    def said(name: str, kind: str) -> tuple[int, str]:
        heard = rig.one(name, kind=kind)[1]
        return heard.status, heard.body.get("Code") or heard.body.get("error_code") or str(heard.body.get("error"))

    assert said("pai ListJobs", "throttled") == (400, "Throttling.User")
    assert said("pai ListQuotas", "throttled") == (429, "Throttling.User")
    assert said("modelarts ListPools", "throttled") == (429, "APIGW.0308")
    assert said("pai ListJobs", "skewed_clock") == (400, "InvalidTimeStamp.Expired")
    assert said("modelarts ListPools", "skewed_clock") == (401, "APIGW.0301")
    assert said("pai ListJobs", "expired_credentials") == (400, "InvalidSecurityToken.Expired")
    assert said("pai ListJobs", "revoked_credentials") == (404, "InvalidAccessKeyId.NotFound")
    assert said("modelarts ShowTrainingJobDetails", "not_found") == (400, "ModelArts.2775")
    assert said("modelarts ListPoolNodes", "not_found") == (404, "ModelArts.50015001")
    assert said("modelarts ListTrainingJobVersions", "not_found") == (404, "ModelArts.0105")
    assert said("modelarts ListPools", "not_found") == (404, "APIGW.0101")


def test_only_the_hint_tells_how_long_to_wait(rig: Rig) -> None:
    for name, own in (("pai ListJobs", "7000"), ("modelarts ListPools", None)):
        _, plain = rig.one(name, kind="throttled")
        _, hinted = rig.one(name, kind="throttled_hint")
        assert "retry-after" not in plain.headers
        assert b"limit:" not in plain.raw
        assert hinted.headers["retry-after"] == "7"
        assert hinted.headers.get("x-acs-retry-after") == own


def test_a_skewed_clock_shows_in_the_date(rig: Rig) -> None:
    for name in ("pai ListJobs", "modelarts ListTrainingJobs"):
        true, heard = rig.one(name, kind="skewed_clock")
        dates = [parsedate_to_datetime(one.headers["date"]).timestamp() for one in (true, heard)]
        assert dates == [START, START + 960]


def test_a_fault_of_a_kind_has_its_own_headers(rig: Rig) -> None:
    _, heard = rig.one("pai ListJobs", kind="redirect", headers={"Location": "http://other.example/x", "X-Why": "y"})
    assert heard.headers["location"] == "http://other.example/x"
    assert heard.headers["x-why"] == "y"
