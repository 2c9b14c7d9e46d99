"""The config of platform `alibaba_pai`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.loading import MINIMAL, faults, load, load_provider
from trainfleet_exporter.config import Http, Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig, Collectors, Credentials, Pods

WITHOUT_CREDENTIALS = MINIMAL.rpartition("    credentials")[0]
ENVIRON = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "env-id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "env-secret"}


def provider_of(folder: Path, text: str, environ: dict[str, str]) -> AlibabaPaiConfig:
    (provider,) = load(folder, text, environ).providers
    assert isinstance(provider, AlibabaPaiConfig)
    return provider


def test_endpoints_are_made_from_the_region(tmp_path: Path) -> None:
    provider = load_provider(tmp_path)
    assert {api: provider.endpoint(api) for api in ("dlc", "paistudio", "aiworkspace")} == {
        "dlc": "https://pai-dlc.cn-hangzhou.aliyuncs.com",
        "paistudio": "https://pai.cn-hangzhou.aliyuncs.com",
        "aiworkspace": "https://aiworkspace.cn-hangzhou.aliyuncs.com",
    }


def test_an_endpoint_of_the_file_takes_the_place_of_one(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, "endpoints: {dlc: 'http://127.0.0.1:8080/', paistudio: null}")
    assert provider.endpoint("dlc") == "http://127.0.0.1:8080"
    assert provider.endpoint("paistudio") == "https://pai.cn-hangzhou.aliyuncs.com"
    assert provider.given_endpoints() == {"dlc": "http://127.0.0.1:8080"}


def test_plain_http_beyond_this_machine_must_be_allowed(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, "endpoints: {dlc: 'http://pai.example'}", "http: {allow_plain_http: true}")
    assert provider.endpoint("dlc") == "http://pai.example"


def test_intervals_by_default(tmp_path: Path) -> None:
    collectors = load_provider(tmp_path).collectors
    assert collectors.job_counts.interval == 300
    assert collectors.jobs.interval is None
    assert collectors.jobs.effective_interval(60) == 60
    assert (collectors.pods.interval, collectors.pods.max_jobs) == (300, 500)
    assert (collectors.usage.interval, collectors.usage.source) == (120, "auto")
    assert collectors.usage.effective_interval(60) == 120
    assert collectors.pools.interval is None
    assert not collectors.nodes.enabled
    assert not collectors.pool_workloads.enabled


@pytest.mark.parametrize(
    "given",
    ["{pool_workloads: {enabled: false}}", "{nodes: {enabled: false, interval: 5m}}", "{nodes: {}}", "{nodes: }"],
)
def test_collectors_of_later_versions_may_be_switched_off(tmp_path: Path, given: str) -> None:
    assert load_provider(tmp_path, f"collectors: {given}").unserved().keys() == {"pool_workloads", "nodes"}


def test_credentials_of_the_file(tmp_path: Path) -> None:
    source = load_provider(tmp_path).credentials_source()
    keys = source.current()
    assert source.origin == "config file"
    assert (keys.access_key_id, keys.access_key_secret, keys.security_token) == ("id", "hunter2", None)


@pytest.mark.parametrize("given", ["", "    credentials: null\n"])
def test_credentials_of_the_environment(tmp_path: Path, given: str) -> None:
    source = provider_of(tmp_path, WITHOUT_CREDENTIALS + given, ENVIRON).credentials_source()
    keys = source.current()
    assert source.origin == "environment"
    assert (keys.access_key_id, keys.access_key_secret, keys.security_token) == ("env-id", "env-secret", None)


def test_a_token_of_the_environment_goes_with_its_keys(tmp_path: Path) -> None:
    environ = {**ENVIRON, "ALIBABA_CLOUD_SECURITY_TOKEN": "env-token"}
    provider = provider_of(tmp_path, WITHOUT_CREDENTIALS, environ)
    assert provider.credentials_source().current().security_token == "env-token"


def test_credentials_of_the_file_keep_those_of_the_environment_out(tmp_path: Path) -> None:
    """A token of another identity would spoil the keys of the file."""
    provider = provider_of(tmp_path, MINIMAL, {**ENVIRON, "ALIBABA_CLOUD_SECURITY_TOKEN": "env-token"})
    assert provider.credentials_source().current().security_token is None


@pytest.mark.parametrize("missing", sorted(ENVIRON))
def test_half_an_environment_is_a_fault_that_names_the_other_half(tmp_path: Path, missing: str) -> None:
    environ = {name: value for name, value in ENVIRON.items() if name != missing}
    told = (
        f"2: providers[0].credentials: found nothing, and the environment does not set {missing}; "
        "allowed: credentials here, or those variables"
    )
    assert faults(tmp_path, WITHOUT_CREDENTIALS, environ) == [told]
    assert faults(tmp_path, WITHOUT_CREDENTIALS, {**environ, missing: ""}) == [told]


def test_a_variable_that_cannot_be_a_secret_is_a_fault_without_its_value(tmp_path: Path) -> None:
    environ = {**ENVIRON, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "hunter2\n"}
    (told,) = faults(tmp_path, WITHOUT_CREDENTIALS, environ)
    assert told.startswith("2: providers[0].credentials.access_key_secret: found <secret>; ")


def test_a_reference_counts_as_the_environment(tmp_path: Path) -> None:
    text = MINIMAL.replace("hunter2", "'${KEY}'")
    source = provider_of(tmp_path, text, {"KEY": "hunter3"}).credentials_source()
    assert source.origin == "config file, environment"
    assert source.current().access_key_secret == "hunter3"


def test_keys_of_files_rotate_without_a_reload(tmp_path: Path) -> None:
    names = ("access_key_id", "access_key_secret", "security_token")
    for name in names:
        (tmp_path / name).write_text("old\n")
    files = ", ".join(f"{name}_file: {name}" for name in names)
    source = provider_of(tmp_path, f"{WITHOUT_CREDENTIALS}    credentials: {{{files}}}\n", {}).credentials_source()
    assert source.origin == ", ".join(f"file {tmp_path / name}" for name in names)
    for name in names:
        (tmp_path / name).write_text(f"newer {name}\n")
    keys = source.current()
    assert (keys.access_key_id, keys.access_key_secret) == ("newer access_key_id", "newer access_key_secret")
    assert keys.security_token == "newer security_token"
    (tmp_path / "security_token").unlink()
    with pytest.raises(AccessDenied, match="security_token cannot be used"):
        source.current()


def test_it_can_be_made_without_a_file() -> None:
    provider = AlibabaPaiConfig(
        name="pai",
        platform="alibaba_pai",
        region="cn-hangzhou",
        credentials=Credentials(access_key_id=Secret("id"), access_key_secret=Secret("hunter2")),
        collectors=Collectors(pods=Pods(interval=7.5, max_jobs=2)),
        http=Http(proxy_url="http://user:hunter2@proxy", ca_file=Path("ca.pem")),
        job_window=1,
    )
    assert (provider.collectors.pods.interval, provider.job_window) == (7.5, 1)
    assert "hunter2" not in repr(provider)
