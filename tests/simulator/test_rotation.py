"""What a long run needs of the clouds: keys that are replaced, and hours in which nobody submits anything."""

from __future__ import annotations

import pytest

from tests.simulator.client import Clock, send, signed_headers
from tests.simulator.modelarts.client import V2
from tests.simulator.modelarts.client import signed_headers as signed_for_modelarts
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, SECRET_KEY
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

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


def test_nobody_submits_to_a_world_that_is_closed() -> None:
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
