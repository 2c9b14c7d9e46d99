"""Which shard polls a provider, and its part of the limits of an account."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.configs import loaded, written
from trainfleet_exporter.config import Config
from trainfleet_exporter.sharding import Shard, apportioned, owner

_PROVIDER = """\
  - name: {name}
    platform: alibaba_pai
    region: cn-hangzhou
    account: {account}
    credentials: {{access_key_id: id, access_key_secret: secret}}
    limits: {{requests_per_second: 6, concurrency: 4, monthly_calls: {{cloudmonitor: 400000, dlc: {dlc}}}}}
"""


def _config(folder: Path, accounts: dict[str, str], dlc: int = 100_000) -> Config:
    """Return a config with these providers and the accounts that they belong to."""
    text = "".join(_PROVIDER.format(name=name, account=account, dlc=dlc) for name, account in accounts.items())
    return loaded(written(folder, f"providers:\n{text}"))


def _parts(config: Config, total: int) -> list[Config]:
    return [apportioned(config, Shard(ordinal, total)) for ordinal in range(total)]


def test_owners_do_not_change_between_versions() -> None:
    """Shards that restart one after the other must agree."""
    assert [owner(name, 4) for name in ("pai-hangzhou", "modelarts-north4", "训练", "a", "b")] == [1, 1, 3, 0, 3]


@pytest.mark.parametrize("total", [1, 2, 4, 7, 16])
def test_each_provider_is_polled_by_one_shard(total: int, tmp_path: Path) -> None:
    config = _config(tmp_path, {f"p{number}": f"a{number}" for number in range(20)})
    polled = Counter(found.name for part in _parts(config, total) for found in part.providers)
    assert polled == Counter(found.name for found in config.providers)


@given(st.text(min_size=1, max_size=20), st.integers(1, 40))
def test_an_added_shard_takes_providers_and_moves_no_other(provider: str, total: int) -> None:
    assert owner(provider, total + 1) in (owner(provider, total), total)


@pytest.mark.parametrize("total", [2, 4, 7])
def test_limits_are_divided_by_the_shards_of_an_account(total: int, tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(5)]
    config = _config(tmp_path, dict.fromkeys(names, "main"))
    held = [part.providers[0].limits for part in _parts(config, total) if part.providers]
    assert len(held) == len({owner(name, total) for name in names}) > 1
    for part in _parts(config, total):
        assert len({found.limits.model_dump_json() for found in part.providers}) <= 1
    assert sum(limits.requests_per_second for limits in held) == pytest.approx(6)
    assert sum(limits.concurrency for limits in held) <= 4 + len(held)
    assert sum(limits.monthly_calls["dlc"] for limits in held) in range(100_000 - total, 100_001)
    assert sum(limits.monthly_calls["cloudmonitor"] for limits in held) in range(400_000 - total, 400_001)
