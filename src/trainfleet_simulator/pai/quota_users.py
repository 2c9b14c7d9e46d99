"""The users of a quota in the simulated PaiStudio: the resources that each holds, and those that each has requested."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.pai.dlc_rows import memory_text
from trainfleet_simulator.pai.paistudio import quota_of
from trainfleet_simulator.pai.parameters import Call, bool_of, list_answer, page_of
from trainfleet_simulator.world.jobs import total
from trainfleet_simulator.world.pools import Amount, pod_amount


def list_quota_active_user_usages(call: Call) -> Answer:
    """GET /api/v1/quotas/{QuotaId}/activeuserusages: users with workloads, including those of child quotas unless
    SelfOnly is set."""
    query, world = call.query, call.world
    quota = quota_of(call)
    offset, size = page_of(query, 10)
    family = [quota] if bool_of(query, "SelfOnly") else list(world.family(quota.spec.pool_id))
    ids = {pool.spec.pool_id for pool in family}
    used: dict[str, Amount] = {}
    submitted: dict[str, Amount] = {}
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for job in world.live():
        user, amount = job.draft.user, Amount(*total(job.draft.roles))
        if job.draft.pool_id not in ids:
            continue
        names[user.user_id] = user.name
        counts[user.user_id] += 1
        submitted[user.user_id] = submitted.get(user.user_id, Amount()) + amount
        for pod in job.pods:
            used[user.user_id] = used.get(user.user_id, Amount()) + pod_amount(pod.role)

    found = [
        {
            "UserId": user_id,
            "Username": names[user_id],
            "WorkloadCount": counts[user_id],
            "Resources": {"Used": _amount(used.get(user_id, Amount())), "Submitted": _amount(submitted[user_id])},
        }
        for user_id in sorted(names, key=lambda user_id: used.get(user_id, Amount()).cards, reverse=True)
    ]
    return list_answer("QuotaUserUsages", found[offset : offset + size], len(found), ("UserId", "WorkloadCount"))


def _amount(value: Amount) -> dict[str, Any]:
    return {
        "CPU": str(value.cpu),
        "GPU": str(value.cards),
        "Memory": memory_text(value.memory) if value.memory else "0",
    }
