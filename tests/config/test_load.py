"""What a good file means, and what no file of `bad/` can show."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.loading import MINIMAL, faults, load, load_provider
from tests.support.configs import loaded
from trainfleet_exporter.config import Config, Global, Limits, redacted
from trainfleet_exporter.errors import ConfigError, Fault
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


def test_the_example_is_short_and_explains_every_key() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    unexplained = [line for line in lines if line.startswith("  ") and " # " not in line]
    assert unexplained == []


def _keys(model: Any) -> list[str]:
    dumped = model.model_json_schema(mode="serialization", by_alias=True)
    sections = [dumped, *dumped["$defs"].values()]
    return [key for section in sections for key in section.get("properties", ())]


def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL)
    assert config.global_ == Global(
        poll_interval=60,
        poll_timeout=50,
        max_data_age=900,
        keep_last_good_polls=3,
        finished_job_retention=3600,
    )
    (provider,) = config.providers
    assert (provider.account, provider.workspaces, provider.job_window) == (None, "all", 30 * 86400)
    assert provider.limits == Limits(requests_per_second=5, concurrency=4)
    assert (provider.http.proxy_url, provider.http.ca_file) == (None, None)
    assert (provider.http.connect_timeout, provider.http.request_timeout) == (5, 20)


@pytest.mark.parametrize("start", ["\ufeff", "# comment\n", "---\n", "\n\n", "%YAML 1.1\n---\n"])
def test_what_may_stand_before_the_mapping(tmp_path: Path, start: str) -> None:
    assert load(tmp_path, start + MINIMAL).providers[0].name == "pai"


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    text = MINIMAL.replace("\n", "\r\n")
    (tmp_path / "config.yaml").write_bytes(text.encode() + b"zzz: 1\r\n")
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path / "config.yaml")
    assert [fault.line for fault in caught.value.faults] == [6]


def test_texts_are_kept_as_written_whatever_yaml_takes_them_for(tmp_path: Path) -> None:
    text = MINIMAL.replace("name: pai", "name: no") + (
        "    account: 0x1F\n"
        "    workspaces: [0123, 1_000, 12:30:45, 2026-01-02, 1e3, true, '456', .inf, =]\n"
        "    jobs: {include: {user_id: [1234567890123456789012], job_type: [off]}}\n"
    )
    (provider,) = load(tmp_path, text).providers
    assert (provider.name, provider.account) == ("no", "0x1F")
    expected = ("0123", "1_000", "12:30:45", "2026-01-02", "1e3", "true", "456", ".inf", "=")
    assert provider.workspaces == expected
    assert provider.jobs.include.user_id == ("1234567890123456789012",)
    assert provider.jobs.include.job_type == ("off",)


@pytest.mark.parametrize("word", ["true", "True", "yes", "on", "'true'", "'${FLAG}'"])
def test_words_for_true(tmp_path: Path, word: str) -> None:
    provider = load_provider(tmp_path, f"http: {{allow_plain_http: {word}}}", environ={"FLAG": "true"})
    assert provider.http.allow_plain_http


def test_anchors_aliases_and_merges(tmp_path: Path) -> None:
    text = """
x-base: &base
  platform: alibaba_pai
  region: cn-hangzhou
  credentials: &keys {access_key_id: id, access_key_secret: hunter2}
  nonsense-that-nobody-uses: &none ${NOT_SET}
x-limits: &limits {limits: {concurrency: 2, requests_per_second: 0.5}}
x-more: &more {limits: {concurrency: 9}, job_window: 7d}
x-slow: &slow {<<: {interval: 5m},
  interval: 1h}
providers:
  - platform: alibaba_pai
    name: a
    region: cn-shanghai
    credentials: *keys
    <<: [*limits, *more]
  - {<<: *more, name: b, platform: alibaba_pai, region: cn-beijing, credentials: *keys, job_window: 1d,
     collectors: {jobs: *slow, pools: *slow}}
"""
    a, b = load(tmp_path, text).providers
    assert (a.region, a.limits.concurrency, a.limits.requests_per_second) == ("cn-shanghai", 2, 0.5)
    chosen: Any = b.collectors
    assert (a.job_window, chosen.jobs.interval, chosen.pools.interval) == (604800, 3600, 3600)
    assert (b.region, b.limits.concurrency, b.job_window) == ("cn-beijing", 9, 86400)


def test_an_empty_section_means_its_defaults(tmp_path: Path) -> None:
    text = (
        "global:\n"
        + MINIMAL
        + "    http:\n    jobs: {include: , exclude: {}}\n    collectors:\n      pods:\n    limits:\n"
    )
    config = load(tmp_path, text)
    assert redacted(config) == redacted(load(tmp_path, MINIMAL))


def test_a_ledger_in_a_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests may run as root, whom no rights stop.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    (reported,) = faults(tmp_path, "global: {ledger_file: jobs.jsonl}\n" + MINIMAL)
    assert 'found "jobs.jsonl"; allowed: a file in a folder that exists and is writable' in reported


def test_relative_paths_start_from_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "secret").write_text("rotating\n")
    monkeypatch.chdir("/")
    text = MINIMAL.replace(
        "access_key_secret: hunter2", "access_key_secret_file: '../${NAME}', access_key_secret: null"
    )
    (provider,) = load(tmp_path / "etc", text, {"NAME": "secret"}).providers
    assert isinstance(provider, AlibabaPaiConfig)
    assert provider.credentials is not None
    secret = provider.credentials.access_key_secret
    assert secret is not None
    assert secret.reveal() == "rotating"


def _provider(name: str, extra: str) -> str:
    (head, *lines) = MINIMAL.splitlines()[1:]
    return "\n".join([head.replace("pai", name), *lines, f"    {extra}", ""])


ACCOUNTS: list[tuple[list[str], list[int] | None]] = [
    (["account: a", "account: a"], [4, 4]),
    (["{a}, limits: {{concurrency: 2}}", "account: a"], [2, 2]),
    (["account: a", "{a}, limits: {{concurrency: 2}}", "account: b", "job_window: 1d"], [2, 2, 4, 4]),
    (["{a}, limits: {{concurrency: 2}}", "{a}, limits: {{concurrency: 2, requests_per_second: 5.0}}"], [2, 2]),
    (["{a}, limits: {{concurrency: 2}}", "{b}, limits: {{concurrency: 3}}", "limits: {{concurrency: 1}}"], [2, 3, 1]),
    (["{a}, limits: {{concurrency: 2}}", "{a}, limits: {{concurrency: 3}}"], None),
    (["{a}, limits: {{concurrency: 2}}", "{a}, limits: {{}}"], None),
    (["{a}, limits: {{concurrency: 2}}", "{a}, limits: {{concurrency: 2}}", "account: a"], None),
]


@pytest.mark.parametrize(("extras", "concurrency"), ACCOUNTS)
def test_providers_of_one_account_share_their_limits(
    tmp_path: Path, extras: list[str], concurrency: list[int] | None
) -> None:
    text = "providers:\n" + "".join(
        _provider(name, extra.format(a="account: a", b="account: b").replace(", limits", "\n    limits"))
        for name, extra in zip("abcd", extras, strict=False)
    )
    if concurrency is None:
        assert "of the" in faults(tmp_path, text)[0]
    else:
        assert [provider.limits.concurrency for provider in load(tmp_path, text).providers] == concurrency


# Values that a key may get by mistake: of a wrong kind, of a wrong depth, with odd characters.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["all", "5m", "10s", "${A}", "${B}", "$$", "https://pai", "http://pai", "alibaba_pai", "hunter2"]),
)
UNSERVED = {"profile", "oidc"}
ODD = {"x-y", "zzz", "", "<<", "secret_file", "access_key_id_file", "a b"}
LEAVES = st.sampled_from(sorted({*UNSERVED, *ODD, *_keys(Config), *_keys(AlibabaPaiConfig)}))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LEAVES, inner, max_size=4), max_leaves=12
)
PROVIDERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]) | SCALARS, "platform": st.just("alibaba_pai") | SCALARS},
    optional={key: VALUES for key in AlibabaPaiConfig.allowed_keys() if key not in {"name", "platform"}},
)
CONFIGS = st.fixed_dictionaries(
    {"providers": st.lists(PROVIDERS | VALUES, max_size=3)},
    optional={"global": st.dictionaries(LEAVES, VALUES, max_size=5), "x-y": VALUES},
)
_numbers = itertools.count()


@settings(max_examples=50)
@given(config=CONFIGS | VALUES)
def test_any_tree_is_a_config_or_has_faults_of_one_line(tmp_path_factory: pytest.TempPathFactory, config: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"any-{next(_numbers)}.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    reported: tuple[Fault, ...] = ()
    try:
        redacted(loaded(path, {"A": "1"}))
    except ConfigError as error:
        reported = error.faults
    finally:
        path.unlink()
    for fault in reported:
        assert len(str(fault).encode().splitlines()) == 1
        assert re.search("[;?] allowed: |^required, but missing", fault.message)


@pytest.mark.parametrize("region", ["cn-suzhou", "cn-shanghai-finance-1", "us-southeast-2", "ap-southeast-9", "moon"])
def test_new_and_private_regions_pass(tmp_path: Path, region: str) -> None:
    assert load(tmp_path, MINIMAL.replace("cn-hangzhou", region)).providers[0].region == region


@pytest.mark.parametrize("url", ["http://localhost", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1"])
def test_plain_http_to_this_machine_is_allowed(tmp_path: Path, url: str) -> None:
    assert load_provider(tmp_path, f"endpoints: {{dlc: '{url}'}}").endpoints.dlc == url


def test_any_region_passes_with_endpoints(tmp_path: Path) -> None:
    text = MINIMAL.replace("cn-hangzhou", "cn-hangzou") + "    endpoints: {dlc: https://pai.example}\n"
    assert load(tmp_path, text).providers[0].region == "cn-hangzou"


def test_a_doubled_dollar_before_a_name_is_a_dollar(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL.replace("name: pai", "name: $$NAME"))
    assert config.providers[0].name == "$NAME"
    assert "name: $$NAME" in redacted(config)
