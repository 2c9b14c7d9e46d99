from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transport.rig import Rig, http, raw_server
from trainfleet_exporter.errors import BadAnswer, CloudError, RequestRefused
from trainfleet_exporter.transport import BodyLimits
from trainfleet_exporter.transport.body import decode_json, read_wire, unpack
from trainfleet_exporter.transport.calls import NOT_JSON

GZIP = "Content-Encoding: gzip"
SMALL = BodyLimits(wire=1000, decoded=2000)


def _read(data: bytes, encoding: str = "gzip", limits: BodyLimits = SMALL, step: int = 100) -> bytes:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), step):
            yield data[start : start + step]

    async def main() -> bytes:
        async with AsyncExitStack() as until_decoded:
            wire = await read_wire(chunks(), limits, until_decoded)
            return await unpack(wire, encoding, limits, until_decoded)

    return asyncio.run(main())


@given(st.binary(max_size=900), st.integers(min_value=1, max_value=200), st.sampled_from(["gzip", "X-GZIP", ""]))
def test_what_was_sent_is_read(data: bytes, step: int, encoding: str) -> None:
    wire = gzip.compress(data) if encoding else data
    assert _read(wire, encoding, step=step) == data


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        (b"a" * 1001, "", "the answer is over the limit of 1000 bytes on the wire"),
        (gzip.compress(b"a" * 2001, mtime=0), "gzip", "the answer is over the limit of 2000 bytes when inflated"),
        (gzip.compress(b"{}", mtime=0)[:-1], "gzip", "the gzip answer is cut off"),
        (gzip.compress(b"{}", mtime=0)[:-9], "gzip", "the gzip answer is cut off"),
        (gzip.compress(b"{}", mtime=0) + b"x", "gzip", "the gzip answer has bytes after its end"),
        (gzip.compress(b"{}", mtime=0) * 2, "gzip", "the gzip answer has bytes after its end"),
        (b"SECRET", "gzip", "the answer is not gzip, although its header says so"),
        (b"{}", "br", "the answer has another encoding than gzip"),
        (b"{}", "gzip, gzip", "the answer has another encoding than gzip"),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_bodies_that_are_refused(data: bytes, encoding: str, message: str, step: int) -> None:
    with pytest.raises(BadAnswer) as caught:
        _read(data, encoding, step=step)
    assert str(caught.value) == message


def test_a_body_over_the_decoded_limit_needs_no_inflating() -> None:
    with pytest.raises(BadAnswer, match=r"over the limit of 10 bytes$"):
        _read(b"a" * 11, "", BodyLimits(wire=100, decoded=10))


def test_default_limits_are_in_mebibytes() -> None:
    with pytest.raises(BadAnswer, match="over the limit of 8 MiB when inflated"):
        _read(gzip.compress(bytes(8 * 2**20 + 1)), limits=BodyLimits(), step=4096)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_values_are_counted_before_they_are_decoded(encoding: str) -> None:
    limits = BodyLimits(values=250_000)
    for values, fits in ((250_000, True), (250_001, False)):
        body = b"[" + b"0," * (values - 1) + b"0]"
        wire = gzip.compress(body, mtime=0) if encoding else body
        if fits:
            assert _read(wire, encoding, limits, step=4096) == body
        else:
            with pytest.raises(BadAnswer, match=r"over the limit of 250,000 values$"):
                _read(wire, encoding, limits, step=4096)


def test_numbers_invalid_in_json_lose_only_themselves() -> None:
    payload = decode_json(b'{"a": NaN, "b": -Infinity, "c": 1e400, "d": 1}')
    assert payload["d"] == 1
    assert not any(math.isfinite(payload[key]) for key in "abc")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{",
        b"{}{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',  # half a surrogate pair, encoded
        b"[" * 100_000,
        b"1" * 5000,
    ],
)
def test_what_is_not_json(body: bytes) -> None:
    assert decode_json(body) is NOT_JSON


def test_json_null_is_a_payload() -> None:
    assert decode_json(b"null") is None
    assert decode_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_half_a_surrogate_pair_breaks_no_encoder() -> None:
    payload = decode_json(b'{"a": "x\\ud83dy", "b": "\\ud83d\\ude00", "c": "\\u00e9"}')
    assert set(payload["a"]) == {"x", "\ufffd", "y"}
    assert (payload["b"], payload["c"]) == ("😀", "é")


def _by_the_standard_library(body: bytes) -> object:
    """What a body holds by Python's own decoder; each byte of half a surrogate pair becomes U+FFFD."""

    def whole(value: object) -> object:
        if isinstance(value, dict):
            return {whole(key): whole(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [whole(inner) for inner in value]
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else value

    try:
        return whole(json.loads(body.decode("utf-8-sig")))
    except ValueError:
        return NOT_JSON


ODD = st.sampled_from(
    [
        *(
            b'"\\ud83d"',
            b'"\\ud83d\\ude00"',
            b'"\\ud83d\\uD83D\\ude00\\udc00"',
            b'"\\\\ud83d\\ude00"',
            b'"\\\\\\ud83d\\\\"',
            b'{"\\udc00": 1}',
            b'"\xed\xa0\x80"',
            b'"\x01"',
            b'"\x7f"',
            b'"\\u0000\\/"',
        ),
        *(b"-0", b"-0.0", b"1e400", b"NaN", b"Infinity", b"1.", b"01", b"1E5", b"0.1e-400"),
        *(b"18446744073709551616", b"-9223372036854775809", b"9" * 400),
        *(b'{"a":1,"a":2}', b"[1,]", b"\xef\xbb\xbf1", b"\xc2\xa0", b"\x0b", b"'a'", b"// a"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.lists(VALUES.map(json.dumps).map(str.encode) | ODD, max_size=4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=2)), max_size=2),
)
def test_every_body_is_decoded_as_the_standard_library_does(
    parts: list[bytes], is_list: bool, changes: list[tuple[int, bytes]]
) -> None:
    body = b"[" + b", ".join(parts) + b"]" if is_list else b"".join(parts)
    for place, put in changes:
        body = body[:place] + put + body[place + 1 :]
    assert repr(decode_json(body)) == repr(_by_the_standard_library(body))  # as text: NaN, and 1 or 1.0 or True


def _failure(answer: bytes) -> CloudError:
    async def main() -> CloudError:
        async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
            error = await rig.failure()
            assert rig.outcomes == [error.outcome]
            error.message = error.message.replace(server.address, "HOST")
            assert "SECRET" not in str(error)
            return error

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http(b"", GZIP), "the answer is not JSON but an empty body"),
        (http(b"<SECRET>", "Content-Type: text/html; x=SECRET"), "the answer is not JSON but 8 bytes of text/html"),
        (http(b"<SECRET>"), "the answer is not JSON but 8 bytes of no stated type"),
        (http(b"SECRET", GZIP), "the answer is not gzip, although its header says so"),
        (http(gzip.compress(b"{}", mtime=0)[:-1], GZIP), "the gzip answer is cut off"),
        (http(gzip.compress(bytes(9 * 2**20), mtime=0), GZIP), "the answer is over the limit of 8 MiB when inflated"),
    ],
)
def test_bad_answers_say_what_is_wrong_and_quote_nothing(answer: bytes, message: str) -> None:
    error = _failure(answer)
    assert isinstance(error, BadAnswer)
    assert str(error) == f"ListJobs: HTTP 200 HOST: {message}"


def test_a_gzip_answer_over_the_wire() -> None:
    async def main() -> None:
        answer = http(gzip.compress(b'{"Jobs": [1]}', mtime=0), GZIP)
        async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
            assert await rig.call() == {"Jobs": [1]}
            assert await rig.call() == {"Jobs": [1]}
            assert server.connections == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("Location: https://login.test:8443/?token=SECRET", "login.test:8443"),
        ("Location: https://me:SECRET@login.test/", "login.test"),
        ("Location: /elsewhere?SECRET", "HOST"),
        ("Location: http://[SECRET", "no valid address"),
        ("Location: http://h:SECRET/", "no valid address"),
        ("X: y", "HOST"),
    ],
)
def test_redirects_are_refused_and_name_the_host_alone(location: str, where: str) -> None:
    error = _failure(http(b"{}", location, status="302 Found"))
    assert isinstance(error, RequestRefused)
    assert str(error) == f"ListJobs: HTTP 302 HOST: redirected to {where}; redirects are not followed"
