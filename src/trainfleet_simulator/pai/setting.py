"""The PAI account's world."""

from __future__ import annotations

import string
from random import Random

from trainfleet_simulator.pai import catalog
from trainfleet_simulator.pai.drafts import draft
from trainfleet_simulator.pai.past import submissions
from trainfleet_simulator.world.setting import Setting


def _job_id(rng: Random) -> str:
    return "dlc1" + "".join(rng.choices(string.ascii_lowercase + string.digits, k=12))


SETTING = Setting(
    pools=catalog.QUOTAS, population=40, watched=6, draft=draft, earlier=submissions, job_id=_job_id, history=200
)
