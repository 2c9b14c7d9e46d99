"""Where units go: each to one shard, evenly, and no more of them elsewhere than need be when there is a shard more."""

from __future__ import annotations

import math
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budgets.rig import opened
from tests.support.sharded import load
from trainfleet_exporter.budgets import Accounts, BillingPeriod, Ledger
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.sharding import ALL, WHOLE, Shard, ShardAssignment, apportioned, assignment_of, ordinal_of

_names = st.text(min_size=1, max_size=12)
_units = st.lists(st.tuples(st.sampled_from(["workspace", "pool", "job"]), _names), min_size=1, max_size=20)


def _owners(provider: str, unit: tuple[str, str], total: int, spread: int) -> list[int]:
    return [n for n in range(total) if ShardAssignment(provider, Shard(n, total), spread).owns(*unit)]


@given(_names, _units, st.integers(1, 40), st.integers(1, 20))
def test_each_unit_has_one_owner_who_is_a_member(
    provider: str, units: list[tuple[str, str]], total: int, spread: int
) -> None:
    members = ShardAssignment(provider, Shard(0, total), spread).members
    assert 1 <= len(members) <= min(total, spread)
    for unit in units:
        (owner,) = _owners(provider, unit, total, spread)
        assert owner in members
    assert [n for n in range(total) if ShardAssignment(provider, Shard(n, total), spread).is_primary] != []
    primaries = [n for n in range(total) if ShardAssignment(provider, Shard(n, total), spread).is_primary]
    assert len(primaries) == 1
    assert primaries[0] in members


@given(_names, _units, st.integers(1, 30), st.integers(1, 20))
def test_what_moves_goes_to_the_shard_that_is_new(
    provider: str, units: list[tuple[str, str]], total: int, spread: int
) -> None:
    for unit in units:
        before, after = _owners(provider, unit, total, spread), _owners(provider, unit, total + 1, spread)
        assert after in (before, [total])


@pytest.mark.long
@pytest.mark.parametrize("spread", [1, 4, 16])
@settings(max_examples=8, deadline=None)
@given(salt=st.integers(0, 10**9))
def test_from_four_shards_to_five_a_fifth_of_the_units_moves(spread: int, salt: int) -> None:
    """At most a quarter, of a fleet of any names that is large enough for that to be no accident."""
    units = [(f"account-{salt}-{n}", ("workspace", f"ws{m}")) for n in range(2000) for m in range(3)]
    owner = {
        total: {
            (provider, unit): ShardAssignment(provider, Shard(0, total), spread).owner(*unit)
            for provider, unit in units
        }
        for total in (4, 5)
    }
    moved = sum(owner[4][key] != owner[5][key] for key in owner[4])
    assert moved <= len(owner[4]) / 4
    for total in (4, 5):
        held = Counter(owner[total].values())
        assert set(held) == set(range(total))
        assert max(held.values()) <= 1.25 * len(units) / total


@given(provider=_names, spread=st.integers(1, 6))
def test_account_members_differ_and_a_shard_replaces_one(provider: str, spread: int) -> None:
    for total in range(1, 12):
        members, after = (ShardAssignment(provider, Shard(0, n), spread).members for n in (total, total + 1))
        assert len(set(members)) == len(members) == min(total, spread)
        changed = [now for before, now in zip(members, after, strict=False) if before != now]
        added = list(after[len(members) :])
        assert changed + added in ([], [total])


@pytest.mark.parametrize("total", [2, 3, 4, 9])
def test_one_large_account_is_divided_evenly(total: int) -> None:
    held = Counter(ShardAssignment("main", Shard(0, total), 4).owner("job", f"job-{n}") for n in range(4000))
    assert len(held) == min(total, 4)
    assert max(held.values()) <= 1.1 * 4000 / len(held)


@pytest.mark.parametrize("spread", [1, 4])
@pytest.mark.parametrize("total", [2, 3, 7])
def test_primary_shards_of_many_accounts_are_spread_evenly(total: int, spread: int) -> None:
    names = [f"account-{n}" for n in range(2000)]
    primary = Counter(ShardAssignment(name, Shard(0, total), spread).owner("account") for name in names)
    assert set(primary) == set(range(total))
    assert max(primary.values()) <= 1.2 * len(names) / total


def test_an_exporter_that_is_alone_has_everything() -> None:
    assert ALL.is_primary
    assert ALL.is_whole
    assert ALL.owns("workspace", "any")


@pytest.mark.parametrize(("ordinal", "total"), [(1, 1), (-1, 2), (4, 4), (0, 0), (0, 1001)])
def test_a_shard_that_cannot_be(ordinal: int, total: int) -> None:
    with pytest.raises(ValueError, match="shard"):
        Shard(ordinal, total)


@pytest.mark.parametrize(
    ("text", "ordinal"),
    [("0", 0), ("12", 12), ("exporter-3", 3), ("a.b-c-10", 10), ("", None), ("x", None), ("-1", None), ("3a", None)],
)
def test_the_ordinal_of_a_pod(text: str, ordinal: int | None) -> None:
    assert ordinal_of(text) == ordinal


_PROVIDER = """\
  - name: {name}
    platform: alibaba_pai
    region: cn-hangzhou
    account: {account}
    credentials: {{access_key_id: id, access_key_secret: secret}}
    limits: {{requests_per_second: 6, concurrency: 4, monthly_calls: {{cloudmonitor: 400000, dlc: 100000}}}}
    sharding: {{spread: {spread}}}
"""


@pytest.mark.parametrize("spread", [1, 3])
@pytest.mark.parametrize("total", [1, 2, 4, 7])
def test_the_parts_of_an_account_come_to_no_more_than_all_of_it(tmp_path: Path, total: int, spread: int) -> None:
    names = [f"p{n}" for n in range(5)]
    config = load(
        "providers:\n" + "".join(_PROVIDER.format(name=name, account="main", spread=spread) for name in names), tmp_path
    )
    parts = [apportioned(config, Shard(n, total), {"alibaba_pai": True}) for n in range(total)]
    for part in parts:
        limits = {found.limits.model_dump_json() for found in part.providers}
        assert len(limits) <= 1  # those of one account are equal, as the config demands it
    held = [part.providers[0].limits for part in parts if part.providers]
    assert sum(limits.requests_per_second for limits in held) == pytest.approx(6)
    assert sum(limits.monthly_calls["dlc"] for limits in held) in range(100_000 - total, 100_001)
    assert sum(limits.monthly_calls.get("cloudmonitor", 0) for limits in held) in range(400_000 - total, 400_001)
    assert sum(limits.concurrency for limits in held) <= 4 + len(held)
    primaries = {n for n in range(total) for name in names if ShardAssignment(name, Shard(n, total), spread).is_primary}
    asking = [parts[n].providers[0].limits.of("cloudmonitor") for n in sorted(primaries)]
    assert sum(limits.requests_per_second for limits in asking) == pytest.approx(6)
    assert sum(limits.concurrency for limits in asking) <= 4 + len(asking)
    shown = Counter(found.name for part in parts for found in part.providers)
    assert set(shown) == set(names)
    assert max(shown.values()) <= min(spread, total)


def test_calls_for_the_whole_account_are_spent_by_primaries(tmp_path: Path) -> None:
    config = load("providers:\n" + _PROVIDER.format(name="p", account="main", spread=8), tmp_path)
    for ordinal in range(4):
        share = ShardAssignment("p", Shard(ordinal, 4), 8)
        part = apportioned(config, share.shard, {"alibaba_pai": True})
        if share.is_member:
            limits = part.providers[0].limits
            assert limits.monthly_calls.get("cloudmonitor") == (400_000 if share.is_primary else None)
            assert limits.monthly_calls["dlc"] == math.floor(100_000 / len(share.members))
            assert limits.of("dlc").requests_per_second == pytest.approx(6 / len(share.members))
            if share.is_primary:
                assert limits.of("cloudmonitor").requests_per_second == 6
                assert limits.of("cloudmonitor").concurrency == 4
            (account,) = Accounts(Ledger(), {}).draft(part.providers).values()
            asked = {api: account.limiter("host", api)._configured for api in ("dlc", "cloudmonitor")}
            assert asked["dlc"] == limits.requests_per_second
            assert (asked["cloudmonitor"] == 6) == share.is_primary


@pytest.mark.parametrize(("providers", "spread"), [(15, 4), (16, 1)])
def test_of_many_providers_each_stays_whole(providers: int, spread: int, tmp_path: Path) -> None:
    open_ = _PROVIDER.replace("    sharding: {{spread: {spread}}}\n", "")
    text = "".join(open_.format(name=f"p{n}", account=f"a{n}") for n in range(providers))
    explicit = _PROVIDER.format(name="explicit", account="explicit", spread=3)
    config = load(f"providers:\n{text}", tmp_path)
    with_explicit = load(f"providers:\n{explicit}{text}", tmp_path)
    for ordinal in range(4):
        part = apportioned(config, Shard(ordinal, 4), {"alibaba_pai": True})
        assert {found.sharding.spread for found in part.providers} == {spread}
        part = apportioned(with_explicit, Shard(ordinal, 4), {"alibaba_pai": True})
        assert {found.sharding.spread for found in part.providers if found.name == "explicit"} <= {3}


def test_an_account_of_two_platforms_is_divided(tmp_path: Path) -> None:
    text = _PROVIDER.format(name="p", account="main", spread=4)
    other = """\
  - name: {name}
    platform: huawei_modelarts
    region: cn-north-4
    account: main
    project_id: 0123456789abcdef0123456789abcdef
    credentials: {access_key: id, secret_key: secret}
"""
    for n in range(8):
        config = load("providers:\n" + other.replace("{name}", f"h{n}") + text, tmp_path)
        for ordinal in range(4):
            part = apportioned(config, Shard(ordinal, 4), {"alibaba_pai": True, "huawei_modelarts": True})
            Accounts(Ledger(), {}).draft(part.providers)  # each of them finds a budget for what it may ask
            shard = Shard(ordinal, 4)
            primaries = [found for found in part.providers if assignment_of(found, shard, splits=True).is_primary]
            if any(found.platform == "alibaba_pai" for found in primaries):
                assert part.providers[0].limits.monthly_calls["cloudmonitor"] > 1


def test_a_platform_that_does_not_split_is_with_one_shard(tmp_path: Path) -> None:
    config = load("providers:\n" + _PROVIDER.format(name="p", account="main", spread=4), tmp_path)
    parts = [apportioned(config, Shard(n, 5), {"alibaba_pai": False}) for n in range(5)]
    (kept,) = [part.providers[0] for part in parts if part.providers]
    assert kept == config.providers[0]
    assert apportioned(config, WHOLE, {"alibaba_pai": True}) is config


def test_spending_of_another_shard_does_not_count(tmp_path: Path) -> None:
    path, holder = tmp_path / "state.json", AccountKey("account", "main")
    kept = opened(path, part=Shard(0, 4).part)
    kept.budget(holder, "dlc", 25_000)
    kept.add(holder, "dlc", {BillingPeriod().month(time.time()).name: 24_000})
    kept.close()
    assert opened(path, part=Shard(0, 4).part).budget(holder, "dlc", 25_000).remaining <= 1_000
    unknown = Ledger().budget(holder, "dlc", 20_000).remaining  # the month's elapsed share is spent
    for other in (Shard(0, 5), Shard(1, 4), WHOLE):
        assert opened(path, part=other.part).budget(holder, "dlc", 20_000).remaining == pytest.approx(unknown, abs=5)
    alone = tmp_path / "alone.json"
    kept = opened(alone)
    kept.budget(holder, "dlc", 25_000)
    kept.add(holder, "dlc", {BillingPeriod().month(time.time()).name: 24_000})
    kept.close()
    assert opened(alone, part=Shard(0, 4).part).budget(holder, "dlc", 20_000).remaining == pytest.approx(unknown, abs=5)
