"""The simulator on a real socket, and the config file that reaches it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
import yaml

from tests.simulator.client import Clock, signed_headers
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.credentials.canonical import canonical_query
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator


def test_it_serves_within_the_running_loop_and_frees_the_port() -> None:
    simulator = Simulator(1, clock=Clock())
    query = {"Status": "Running", "DisplayName": "asr steady*"}

    async def main() -> tuple[list[int], int]:
        async with simulator.serve() as base_url, httpx.AsyncClient(trust_env=False) as client:
            host = base_url.removeprefix("http://")
            statuses = []
            for secret in ("simulated-secret", "wrong"):
                headers = signed_headers("/api/v1/jobs", query, host=host, access_key_secret=secret)
                url = f"{base_url}/api/v1/jobs?{canonical_query(query)}"
                statuses.append((await client.get(url, headers=headers)).status_code)
            statuses.append((await client.get(f"{base_url}/truth")).status_code)
        return statuses, int(host.rpartition(":")[2])

    statuses, port = asyncio.run(main())
    assert statuses == [200, 400, 200]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_kept_connections_do_not_wait_for_acknowledgements() -> None:
    simulator = Simulator(1, clock=Clock())

    async def main() -> float:
        async with simulator.serve() as base_url, httpx.AsyncClient(trust_env=False) as client:
            begun = asyncio.get_running_loop().time()
            for _ in range(20):
                await client.get(f"{base_url}/truth")
            return asyncio.get_running_loop().time() - begun

    assert asyncio.run(main()) < 0.6  # Nagle's algorithm would make it 0.8 s at least


def test_a_taken_port_is_an_os_error() -> None:
    async def main() -> None:
        async with Simulator(1, clock=Clock()).serve() as base_url:
            port = int(base_url.rpartition(":")[2])
            async with Simulator(1, clock=Clock()).serve(port=port):
                raise AssertionError("two servers on one port")

    with pytest.raises(OSError, match="in use"):
        asyncio.run(main())


def test_the_config_reaches_it() -> None:
    simulator = Simulator(1, "LTAIX", "s3cret", clock=Clock())
    config = yaml.safe_load(simulator.config_yaml("http://127.0.0.1:8123"))
    (provider,) = config["providers"]
    assert provider["name"] == "sim-pai-hangzhou"
    assert provider["credentials"] == {"access_key_id": "LTAIX", "access_key_secret": "s3cret"}
    assert set(provider["endpoints"].values()) == {"http://127.0.0.1:8123"}
    assert config["global"]["metrics"]["job_labels"] == ["team", "project", "cost-center"]
    assert provider["collectors"]["usage"] == {"interval": "15s"}


@pytest.mark.parametrize(
    ("clouds", "names"),
    [(("pai",), ["sim-pai-hangzhou"]), (("modelarts", "pai"), ["sim-pai-hangzhou", "sim-modelarts-north4"])],
)
def test_the_exporter_takes_the_config_as_it_is(tmp_path: Path, clouds: tuple[str, ...], names: list[str]) -> None:
    path = tmp_path / "simulated.yaml"
    simulator = Simulator(1, clock=Clock(), clouds=clouds)
    path.write_text(simulator.config_yaml("http://127.0.0.1:8123"), encoding="utf-8")
    platforms = {name: platform.config for name, platform in installed_platforms().items()}
    config = load_config(path, environ={}, platforms=platforms)
    assert [provider.name for provider in config.providers] == names


BOTH = ("pai", "modelarts")


def test_with_both_clouds_the_config_has_a_provider_for_each() -> None:
    simulator = Simulator(1, clock=Clock(), clouds=BOTH, secret_key="s3cret", security_token="STSTOKEN")
    pai, modelarts = yaml.safe_load(simulator.config_yaml("http://127.0.0.1:8123"))["providers"]
    assert pai["name"] == "sim-pai-hangzhou"
    assert modelarts["name"] == "sim-modelarts-north4"
    assert modelarts["region"] == "cn-north-4"
    assert modelarts["credentials"] == {
        "access_key": "HUAWEISIMULATORAK",
        "secret_key": "s3cret",
        "security_token": "STSTOKEN",
    }
    assert modelarts["endpoints"] == dict.fromkeys(("modelarts", "iam", "aom"), "http://127.0.0.1:8123")
    assert modelarts["limits"] == pai["limits"]
    assert modelarts["collectors"]["jobs_v1"] == {"enabled": True, "interval": "20s"}


def test_the_second_cloud_changes_nothing_for_the_first() -> None:
    alone, beside = Simulator(3, clock=Clock()), Simulator(3, clock=Clock(), clouds=BOTH)
    assert set(alone.worlds) == {"pai"}
    assert list(alone.world.jobs) == list(beside.world.jobs)
    assert alone.config_yaml("http://h") in beside.config_yaml("http://h")


@pytest.mark.parametrize("clouds", [(), ("azure",), ("pai", "azure")])
def test_unknown_clouds(clouds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="pai, modelarts"):
        Simulator(1, clock=Clock(), clouds=clouds)


def test_the_config_carries_a_security_token_where_there_is_one() -> None:
    simulator = Simulator(1, clock=Clock(), security_token="STSTOKEN")
    (provider,) = yaml.safe_load(simulator.config_yaml("http://127.0.0.1:1"))["providers"]
    assert provider["credentials"]["security_token"] == "STSTOKEN"
