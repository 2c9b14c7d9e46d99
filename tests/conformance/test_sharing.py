"""The kit's check of shards: it does not hang on what things are called, and notices what has all of a provider."""

from __future__ import annotations

from dataclasses import replace

import pytest

import test_conformance as lantern
from pretend_lantern import PretendLantern
from trainfleet_conformance import PretendCloud
from trainfleet_conformance.sharing import dividing
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.sharding import ALL
from trainfleet_lantern.config import LanternConfig
from trainfleet_lantern.provider import PLATFORM, Lantern


class _Named(lantern.TestLantern):
    """The example, with workspaces of other names."""

    __test__ = False
    workspaces: tuple[str, ...] = ("ws-vision", "ws-speech")

    def cloud(self, jobs: int) -> PretendCloud:
        return PretendLantern(jobs=jobs, token=self.secret("token", special=False), workspaces=self.workspaces)


class _AtHome(Lantern):
    """All of it is with the primary shard."""

    def __init__(self, config: LanternConfig, context: BuildContext) -> None:
        super().__init__(config, replace(context, shard=ALL))
        self.collectors = self.collectors if context.shard.is_primary else ()


class _Undivided(_Named):
    platform = replace(PLATFORM, build=_AtHome)


@pytest.mark.parametrize("named", [("w1", "w2"), ("a", "b"), ("only",)], ids="-".join)
def test_workspaces_may_have_any_names(named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Named, "workspaces", named)
    monkeypatch.setattr(_Named, "_good_runs", {})
    _Named().test_share_all_shards_together_show_what_one_exporter_shows()


def test_a_provider_that_is_not_divided_is_told() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"all of it is with one shard, though Platform\.splits"):
        _Undivided().test_share_all_shards_together_show_what_one_exporter_shows()


def test_shards_are_so_many_that_names_are_with_several_of_them() -> None:
    pairs = [(f"a{number}", f"b{number}") for number in range(200)]
    assert {dividing(pair) for pair in pairs} > {dividing(())}  # of some pairs three shards would have both
