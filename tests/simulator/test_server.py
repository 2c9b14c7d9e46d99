"""The simulator on a real socket, the config file that reaches it, new keys, and a world that submits nothing."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
import yaml

from tests.simulator.client import Clock, send, signed_headers
from tests.simulator.modelarts.client import V2
from tests.simulator.modelarts.client import signed_headers as signed_for_modelarts
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, SECRET_KEY
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET


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


BEFORE = (ACCESS_KEY_ID, ACCESS_KEY_SECRET, ACCESS_KEY, SECRET_KEY)


@pytest.mark.parametrize("token", [None, "a-token"])
def test_keys_are_replaced(token: str | None) -> None:
    simulator = Simulator(clouds=("pai", "modelarts"), clock=Clock(), population=5, security_token=token)

    def statuses(key_id: str, secret: str, access_key: str, secret_key: str) -> tuple[int, int]:
        query = {"PageSize": "1"}
        for_pai = signed_headers("/api/v1/jobs", query, access_key_id=key_id, access_key_secret=secret)
        pools = f"{V2}/pools"
        for_modelarts = signed_for_modelarts(pools, access_key=access_key, secret_key=secret_key)
        return (
            send(simulator, "/api/v1/jobs", query, headers=for_pai).status_code,
            send(simulator, pools, headers=for_modelarts).status_code,
        )

    first, second = ("id1", "s1", "ak1", "sk1"), ("id2", "s2", "ak2", "sk2")
    assert statuses(*BEFORE) == ((200, 200) if token is None else (400, 401))
    assert statuses(*first) == (404, 401)
    simulator.rotate_keys(*first)
    assert statuses(*first) == (200, 200)
    assert statuses(*BEFORE) == (404, 401)
    simulator.rotate_keys(*second)
    assert statuses(*second) == (200, 200)
    assert statuses(*first) == (404, 401)
    assert all(part in simulator.config_yaml("http://x") for part in second)
    assert "security_token" not in simulator.config_yaml("http://x")


def test_closed_world_gets_no_new_jobs() -> None:
    clock = Clock()
    world = Simulator(clock=clock, population=20).world
    at_first = {job.job_id for job in world.live()}
    world.closed = True
    world.advance(clock.now + 7200)
    assert {job.job_id for job in world.live()} < at_first
    jobs = len(world.jobs)
    world.closed = False
    world.advance(clock.now + 14400)
    assert len(world.jobs) > jobs + 50
