"""The kinds of faults, each with its meaning and the outcome that a client must report."""

from __future__ import annotations

from collections.abc import Mapping

WIRE: Mapping[str, str] = {
    "reset": "the connection is reset (TCP RST) before any answer",
    "close": "the connection is closed without an answer",
    "reset_midway": "the head and a part of the true body, then a reset",
    "cut_off": "the head, Content-Length of the whole, half of the body, then closed",
    "hang": "nothing ever comes, until the client goes away or the server stops",
    "drip": "the true answer from its first byte to its last, one byte a second",
    "not_http": "bytes that are no HTTP, then closed",
}
HTTP: Mapping[str, str] = {
    "throttled": "the cloud's own throttling refusal without any hint how long to wait",
    "throttled_hint": "the same with Retry-After: 7 (PAI also in its own header, in milliseconds)",
    "server_error": "500 in the cloud's own form",
    "bad_gateway": "502 with a proxy's HTML page",
    "no_content": "204",
    "empty": "200 without a body",
    "redirect": "302 to the Location of the fault's headers, or to another host",
    "denied": "the cloud's own 403 for a missing right",
    "not_found": "the cloud's own 404 (a v2 job that is not there is ModelArts' 400)",
    "quoted": "400 that quotes what the request proves itself with: whole, encoded and cut",
    "quoted_at_length": "the same in more than 16 KiB, with 200 where the API has refusals with 200",
}
BODY: Mapping[str, str] = {
    "html": "200 with a login page",
    "truncated": "whole HTTP, the JSON cut in the middle",
    "wrong_top": "a JSON list where an object belongs",
    "null": "JSON null",
    "wrong_types": "every field keeps its name and gets a value of another type",
    "one_bad_row": "the first row is wrong-typed through and through, the rest is true",
    "oversized": "50 MB of valid JSON",
    "gzip_bomb": "gzip of 1 MB that inflates to 1 GiB of valid JSON",
    "many_lists": "gzip of 50 kB that inflates to just under 32 MiB of empty lists",
    "many_objects": "the same of objects with one field",
    "many_nans": "the same of NaN",
    "many_surrogates": "the same of empty lists, and half a surrogate pair at the end",
    "padded": "the true answer and 240,000 values next to it: lists, objects, NaN and half a surrogate pair",
    "gzip_broken": "gzip that is cut off",
    "gzip_false": "says gzip and is not",
    "deep": "JSON nested 100,000 deep",
    "bad_utf8": "the true answer with bytes in a text that are no UTF-8",
}
PAGING: Mapping[str, str] = {
    "duplicate_rows": "each row of each page twice, the total as it is",
    "moving_rows": "between two pages a row comes in at the top: a page begins with the last row of the one before",
    "endless_pages": "always a full page of ever new rows and a total far off, or another token",
    "half_list": "the total as it is, half of the rows missing",
    "no_list": "the list's field is missing",
}
VALUES: Mapping[str, str] = {
    "unknown_words": "states are unknown words (or numbers)",
    "hostile_strings": "names and free texts of quotes, line breaks, control characters, 10 kB, and worse",
    "lone_surrogates": "names and free texts with halves of surrogate pairs",
    "negative": "measured and counted numbers are below 0",
    "nan": "measured and counted numbers are NaN",
    "infinite": "measured and counted numbers are 1e400",
}
IDENTITY: Mapping[str, str] = {
    "skewed_clock": "the cloud's clock is 16 minutes ahead: its refusal of the signature, and its Date",
    "expired_credentials": "the cloud's own refusal of credentials that have expired",
    "revoked_credentials": "the cloud's own refusal of credentials that are no longer there",
}
KINDS: Mapping[str, str] = {**WIRE, **HTTP, **BODY, **PAGING, **VALUES, **IDENTITY}
"""Every kind by name."""

_MAY_BE_EMPTY = frozenset({"ShowTrainingJobMetrics", "ShowPodMetricStatistic"})
_STILL_AN_ANSWER = (PAGING.keys() | VALUES.keys() | {"one_bad_row", "padded"}) - {"no_list"}


def outcome_of_kind(kind: str, operation: str) -> str:
    """Return the outcome that a client must count for a broken response; empty if the kind does not change it.

    If the whole body is invalid, the response is bad. If only rows or values are wrong, the client accepts the response
    and finds them later.
    """
    if kind in WIRE:
        return "timeout" if kind in {"hang", "drip"} else "network"
    if kind in {"no_content", "empty"} and operation in _MAY_BE_EMPTY:
        return "no_data"
    if kind in {"redirect", "quoted", "quoted_at_length"}:
        return "client"
    if kind == "bad_gateway":
        return "server"
    return "" if kind in _STILL_AN_ANSWER else "bad_answer"
