"""The columns of the matrix: every fault, how it is made, and how it may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.judges import Judge, cleaned_texts, nothing_else, one_object, reported_totals, unknown_states
from trainfleet_simulator import Fault

KEPT, SAME, REPORTED, LESS, OTHER, VOID = "kept", "same", "reported", "less", "other", "void"
ENDS: Mapping[str, str] = {
    KEPT: "the exporter got no response or rejected it; the last good values stayed for their time, then disappeared",
    SAME: "the exporter accepted the response: nothing changed",
    REPORTED: "nothing is missing, and a metric and the log show the fault",
    LESS: "only the affected values are missing, and a metric counts them",
    OTHER: "the page shows the value as it is, such as an unknown state or a strange text",
    VOID: "the operation's response has no value of that kind",
}
SHUT = "refused"
"""The one fault that is not a response: the address accepts no connections."""


_WIRE, _REFUSAL, _BODY = "Connections", "Rejections and statuses", "Bodies"
_LIST, _VALUE = "Lists and pages", "Values and texts"
GROUPS = (_WIRE, _REFUSAL, _BODY, _LIST, _VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One fault. `ends` are those that it may come to, `outcomes` the words that its calls may be counted under."""

    name: str
    group: str
    meaning: str
    kind: str = ""
    status: int | None = None
    """The HTTP status that a fault without a kind answers with."""
    ends: Sequence[str] = (KEPT,)
    outcomes: Sequence[str] = ("ok", "no_data", "bad_answer")
    judge: Judge = nothing_else
    refuses: bool = False
    """Whether it is a refusal, after which credentials are left alone for five minutes."""
    small_pages: bool = False
    """Whether lists are read by two rows meanwhile, so that they have more than one page."""
    recovers: int = 1
    """After how many polls all is as before."""
    needs: str = ""
    """What the row must say of its operation for this fault to be made: the name of one of its mappings."""
    on: Mapping[str, str] = field(default_factory=dict)
    """What else a call must be for the fault to happen to it."""
    times: int | None = None
    """To how many calls it happens, none of which may fail a poll; None for all."""

    @property
    def is_whole(self) -> bool:
        """Whether it spoils every answer of the operation, so that nothing of it is left in the end."""
        return self.ends[0] == KEPT and self.group not in (_LIST, _VALUE) and not self.needs

    def faults(self, match: Mapping[str, str], more: Mapping[str, str]) -> list[Fault]:
        """What the simulated clouds are given: calls that `match`, and where the fault `needs` it those with `more`."""
        match = {**match, **more, **self.on}
        return [Fault(match=match, kind=self.kind, status=self.status, times=self.times)]


def _failing(group: str, kind: str, meaning: str, *outcomes: str, **more: Any) -> Column:
    """Return a fault that spoils every answer, and is counted as one of the `outcomes`."""
    return Column(name=kind.replace("_", " "), group=group, kind=kind, meaning=meaning, outcomes=outcomes, **more)


def _misleading(group: str, kind: str, meaning: str, *ends: str, **more: Any) -> Column:
    """Return a fault of answers that are accepted, or of which a part is."""
    return Column(name=kind.replace("_", " "), group=group, kind=kind, meaning=meaning, ends=ends, **more)


COLUMNS: tuple[Column, ...] = (
    Column(name=SHUT, group=_WIRE, meaning="connections to the address are refused", outcomes=("network",)),
    _failing(_WIRE, "reset", "the connection is reset before a response", "network"),
    _failing(_WIRE, "close", "the connection is closed without a response", "network"),
    _failing(_WIRE, "reset_midway", "the connection is reset in the middle of the body", "network"),
    _failing(_WIRE, "cut_off", "the body ends before its length", "network"),
    _failing(_WIRE, "hang", "no response arrives", "timeout"),
    _failing(_WIRE, "drip", "the response arrives at one byte a second", "timeout"),
    _failing(_WIRE, "not_http", "the response is not HTTP", "network"),
    Column(
        name="closed while idle",
        group=_WIRE,
        kind="close",
        meaning="once, the cloud has closed a kept connection; the exporter notices when it sends a request, "
        "and sends it again",
        ends=(SAME, REPORTED, VOID),
        outcomes=("network", "ok", "no_data"),
        on={"connection": "kept"},
        times=1,
    ),
    _failing(_REFUSAL, "throttled", "throttled, without `Retry-After`", "throttled"),
    _failing(_REFUSAL, "throttled_hint", "throttled, with `Retry-After`", "throttled"),
    _failing(_REFUSAL, "server_error", "500 with the cloud's own message", "server"),
    _failing(_REFUSAL, "bad_gateway", "502 with the page of a proxy", "server"),
    _failing(_REFUSAL, "redirect", "302 to another host", "client", refuses=True),
    _failing(_REFUSAL, "denied", "403 for a missing permission", "auth", refuses=True),
    _failing(_REFUSAL, "not_found", "404", "not_found", "client", refuses=True, recovers=2),
    _failing(
        _REFUSAL,
        "skewed_clock",
        "the cloud's clock is 16 minutes ahead, so it rejects our signatures",
        "auth",
        ends=(KEPT, VOID),
        refuses=True,
    ),
    *(
        _failing(_REFUSAL, kind, meaning, "auth", "not_found", "client", ends=(KEPT, VOID), refuses=True)
        for kind, meaning in (
            ("expired_credentials", "the credentials have expired"),
            ("revoked_credentials", "the credentials were revoked"),
        )
    ),
    Column(
        name="young credentials refused",
        group=_REFUSAL,
        kind="expired_credentials",
        meaning="once, an API rejects credentials that are a minute old; the exporter replaces them",
        ends=(SAME, REPORTED),
        outcomes=("ok",),
        needs="used_by",
        times=1,
    ),
    Column(
        name="one workspace gone",
        group=_REFUSAL,
        kind="not_found",
        meaning="404 for one of the workspaces; the usage of its jobs returns one poll after the jobs",
        outcomes=("not_found", "client", "ok", "no_data"),
        needs="one_workspace",
        recovers=2,
    ),
    _failing(
        _REFUSAL, "quoted", "400 that quotes the signature and tokens: whole, encoded and cut", "client", refuses=True
    ),
    _failing(
        _REFUSAL,
        "quoted_at_length",
        "the same in more than 16 KiB, with status 200 if the API reports errors with 200",
        "client",
        refuses=True,
    ),
    Column(
        name="finished jobs refused",
        group=_REFUSAL,
        status=400,
        meaning="400 for the query for finished jobs only; the exporter looks up these jobs by id",
        ends=(REPORTED,),
        outcomes=("client", "ok", "no_data"),
        needs="finished_jobs",
    ),
    _failing(_BODY, "no_content", "204", "bad_answer"),
    _failing(_BODY, "empty", "200 without a body", "bad_answer"),
    _failing(_BODY, "html", "200 with a login page", "bad_answer"),
    _failing(_BODY, "truncated", "JSON that ends in the middle", "bad_answer"),
    _failing(_BODY, "bad_utf8", "JSON that is not UTF-8", "bad_answer"),
    _failing(_BODY, "wrong_top", "a JSON list for an object", "bad_answer"),
    _failing(_BODY, "null", "JSON null", "bad_answer"),
    _failing(_BODY, "deep", "JSON nested 100,000 deep", "bad_answer"),
    _failing(_BODY, "oversized", "50 MB of JSON", "bad_answer"),
    _failing(_BODY, "gzip_bomb", "1 MB that inflates to 1 GiB", "bad_answer"),
    _failing(_BODY, "many_lists", "50 kB that inflates to just under 32 MiB of empty lists", "bad_answer"),
    _failing(_BODY, "many_objects", "the same with objects of one field", "bad_answer"),
    _failing(_BODY, "many_nans", "the same with NaN", "bad_answer"),
    _failing(_BODY, "many_surrogates", "the same with empty lists, and half a surrogate pair at the end", "bad_answer"),
    _failing(_BODY, "gzip_broken", "gzip that ends in the middle", "bad_answer"),
    _failing(_BODY, "gzip_false", "a gzip header without gzip", "bad_answer"),
    _misleading(
        _BODY,
        "padded",
        "20 responses just below the limit, with 240,000 more values such as lists and NaN",
        *(SAME, REPORTED, VOID),
        times=20,
    ),
    _misleading(_LIST, "no_list", "the list is missing", KEPT, LESS, VOID),
    _misleading(_LIST, "half_list", "the list has half of the rows that the total counts", KEPT, LESS, VOID),
    Column(
        name="second page fails",
        group=_LIST,
        kind="server_error",
        meaning="500 for the second page, with two rows a page",
        outcomes=("server", "ok"),
        needs="second_page",
        small_pages=True,
    ),
    _misleading(_LIST, "duplicate_rows", "every row twice", SAME, REPORTED, VOID),
    _misleading(
        _LIST,
        "moving_rows",
        "a row is added at the top between two pages of two rows",
        *(SAME, REPORTED, VOID),
        small_pages=True,
    ),
    _misleading(_LIST, "endless_pages", "the pages never end", KEPT, VOID, judge=reported_totals),
    _misleading(
        _LIST,
        "one_bad_row",
        "the values of one row have other types",
        *(LESS, SAME, REPORTED, OTHER, KEPT, VOID),
        judge=one_object,
    ),
    _misleading(
        _VALUE,
        "wrong_types",
        "every value has another type",
        *(KEPT, LESS, SAME, OTHER),
        judge=one_object,
        refuses=True,
    ),
    _misleading(
        _VALUE,
        "unknown_words",
        "unknown words for states; the usage of such jobs returns one poll later",
        *(OTHER, SAME, VOID),
        judge=unknown_states,
        recovers=2,
    ),
    *(
        _misleading(_VALUE, kind, meaning, OTHER, SAME, REPORTED, VOID, judge=cleaned_texts)
        for kind, meaning in (
            ("hostile_strings", "quotes, control characters and 10 kB in names and texts"),
            ("lone_surrogates", "halves of surrogate pairs in names and texts"),
        )
    ),
    _misleading(_VALUE, "negative", "negative numbers", LESS, KEPT, SAME, VOID),
    _misleading(_VALUE, "nan", "NaN for numbers", LESS, KEPT, SAME, VOID),
    _misleading(_VALUE, "infinite", "1e400 for numbers", LESS, KEPT, SAME, VOID),
)
