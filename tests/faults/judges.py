"""What may stand on a page while a fault lasts, beside one from before it. Each answers complaints."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from trainfleet_conformance.page import Key, Page, words, wrong

Judge = Callable[[Page, Page], list[str]]

_COUNTS = (
    "trainfleet_jobs",
    "trainfleet_job_pods",
    "trainfleet_job_replaced_pods",
    "trainfleet_pool_nodes",
    "trainfleet_pool_workloads",
)
_HOLDS = "trainfleet_job_holds_resources"
_STATES = ("trainfleet_job_status", "trainfleet_pool_status", "trainfleet_node_status", "trainfleet_pod_status")
_UNKNOWN_WORDS = re.compile(r"Sublimating|(JOBSTAT_)?-?\d+")
_WHOLES, _MEAN = ("trainfleet_job_", "trainfleet_pod_", "trainfleet_pool_"), "_utilization_ratio"
_OF_TEXTS = "trainfleet_job_restarts_allowed"
"""A number that ModelArts has in an annotation, which is free text."""
_TEXTS = {
    "accelerator_model",
    "job_name",
    "job_type",
    "node_name",
    "node_type",
    "payment_type",
    "platform_status",
    "pod_ip",
    "node_ip",
    "pool_name",
    "reason",
    "resource_type",
    "role",
    "user_id",
    "user_name",
    "workload_type",
    "workspace_name",
}
"""Labels that hold what somebody wrote, or an enumeration of the cloud's; ids and our own words are not among them."""


def nothing_else(now: Page, before: Page) -> list[str]:
    """Everything shown is as before."""
    return _described(now, wrong(now, before))


def unknown_states(now: Page, before: Page) -> list[str]:
    """A state may be unknown instead, and be counted as such; each object is in one state all the same."""
    complaints = []
    for key in wrong(now, before):
        labels = dict(key[1])
        word = labels.get("platform_status") or labels.get("reason", "")
        unknown = "unknown" in (labels.get("status"), labels.get("state")) or _UNKNOWN_WORDS.fullmatch(word)
        # What was counted in a state, and 1 for the state that something was in, is less now.
        left = key[0] in {*_COUNTS, *_STATES, _HOLDS} and now.shown[key] < before.shown.get(key, -math.inf)
        if not unknown and not left:
            complaints.append(key)
    return _described(now, complaints) + _in_one_state(now)


def without_models(now: Page, before: Page) -> list[str]:
    """Everything is as before, but for the models of accelerators that are not known."""
    return _described(now, [key for key in wrong(now, before) if ("accelerator_model", "") not in key[1]])


def another_source(now: Page, before: Page) -> list[str]:
    """Usage may come from another source, which `job_usage_info` names; a job has one source."""
    sources = Counter(labels["job_id"] for labels, _ in now.of("trainfleet_job_usage_info", provider="affected"))
    replaced = {labels["job_id"] for labels, _ in now.of("trainfleet_job_usage_info", source="task_metrics")}
    others = [key for key in wrong(now, before) if dict(key[1]).get("job_id") not in replaced]
    return _described(now, others) + [f"{count} sources of {job_id}" for job_id, count in sources.items() if count != 1]


def without_nodes(now: Page, before: Page) -> list[str]:
    """Everything is as before, but for tasks that are shown without their nodes."""
    return _described(now, [key for key in wrong(now, before) if ("node_name", "") not in key[1]])


def reported_totals(now: Page, before: Page) -> list[str]:
    """Counts that are nothing but the total of a list are what the cloud says."""
    return _described(now, [key for key in wrong(now, before) if key[0] not in _COUNTS])


def one_object(now: Page, before: Page) -> list[str]:
    """What could be read of an object whose fields are of wrong types is true, or unknown; counts may lack it.

    The mean of a job's pods is that of those which could be read; no sum is shown that lacks one.
    """
    means = [words(key) for key in wrong(now, before) if key[0].startswith(_WHOLES) and key[0].endswith(_MEAN)]
    return [text for text in unknown_states(now, before) if not any(mean in text for mean in means)]


def cleaned_texts(now: Page, before: Page) -> list[str]:
    """The same series, but for what their texts say."""
    mine, theirs = _without_texts(now), _without_texts(before)
    more = [f"not there before: {words(key)}" for key in mine - theirs]
    return more + [f"lost: {words(key)}" for key in theirs - mine if key[0] != _OF_TEXTS]


def _in_one_state(page: Page) -> list[str]:
    complaints = []
    for family in _STATES:
        states: Counter[Key] = Counter()
        for labels, value in page.of(family):
            owner = tuple(sorted(pair for pair in labels.items() if pair[0] != "status"))
            states[family, owner] += int(value)
        complaints += [f"in {count} states: {words(one)}" for one, count in states.items() if count != 1]
    return complaints


def _without_texts(page: Page) -> Counter[Key]:
    return Counter((family, tuple(pair for pair in pairs if pair[0] not in _TEXTS)) for family, pairs in page.shown)


def _described(page: Page, keys: list[Key]) -> list[str]:
    return [f"not true: {words(key)} {page.shown[key]}" for key in keys]
