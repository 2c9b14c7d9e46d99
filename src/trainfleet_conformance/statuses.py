"""Checks that every documented state is mapped, and that all other words are unknown, not guessed or dropped."""

from __future__ import annotations

import random
from typing import Any

from trainfleet_conformance.answers import change_leaves, holds, lists, spoiling
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.gateway import Spoil
from trainfleet_conformance.page import ERRORS
from trainfleet_conformance.stage import Stage
from trainfleet_exporter.model import FINISHED, Status

NEW_WORD = "Sublimating"
_RANDOM_WORDS = 200


class StatusChecks(ProviderCase):
    """Checks of the mapping of states."""

    def test_status_every_documented_word_is_mapped(self) -> None:
        """Documented states map to their statuses."""
        complain(
            [
                f"{word!r} is taken for {self.status_of(word)}, and is {status}"
                for word, status in self.statuses.items()
                if self.status_of(word) is not status
            ],
            "map each state by a table, word for word",
        )

    def test_status_no_other_word_is_guessed(self) -> None:
        """Words that are not documented are unknown, even if they resemble a documented one."""
        chance = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ _-0123456789é"
        tried = ["", " ", "0", "-1", "null", "None", "\x00", "x" * 10_000, "__class__", NEW_WORD]
        tried += [f"{word}{more}" for word in self.statuses for more in ("x", " ", "ing", "\n")]
        tried += ["".join(chance.choices(letters, k=chance.randrange(1, 20))) for _ in range(_RANDOM_WORDS)]
        complaints = []
        for word in tried:
            if word in self.statuses:
                continue
            try:
                found = self.status_of(word)
            except Exception as error:  # noqa: BLE001 - the check reports any exception
                complaints.append(f"{word[:40]!r} raises {type(error).__name__}")
                continue
            if found is not Status.UNKNOWN:
                complaints.append(f"{word[:40]!r} is taken for {found}")
        complain(complaints, "answer Status.UNKNOWN for every word that is not in the table: STATUS.get(word, UNKNOWN)")

    @on_stage()
    async def test_status_a_new_word_is_shown_as_unknown(self, stage: Stage) -> None:
        """The page shows and counts a job in an unknown state, and labels it with the cloud's word."""
        live = stage.cloud.live_jobs()
        job_id, word = next(item for item in live.items() if self.statuses[item[1]] not in FINISHED)
        with stage.spoilt(_renamed(job_id, word)):
            page = await stage.page(2)
        complaints = []
        states = page.states_of(job_id)
        if states != [str(Status.UNKNOWN)]:
            complaints.append(f"job {job_id} in the state {NEW_WORD!r} is shown as {states or 'nothing'}")
        if not list(page.of("trainfleet_job_platform_status", job_id=job_id, platform_status=NEW_WORD)):
            complaints.append(f"job {job_id} does not show {NEW_WORD!r} as its platform_status")
        counted = page.total("trainfleet_jobs", status="unknown", platform_status=NEW_WORD)
        if counted != 1:
            complaints.append(f"{counted:.0f} jobs are counted as unknown, {NEW_WORD!r}")
        if page.total(ERRORS, reason="internal"):
            complaints.append("the provider raises what it should not")
        complain(complaints, "keep a job whose state is unknown: status UNKNOWN, its word in platform_status")


def _renamed(job_id: str, word: str) -> Spoil:
    """Give one job another state in all responses."""

    def renamed(value: Any) -> Any:
        return change_leaves(value, lambda name, leaf: NEW_WORD if leaf == word else leaf)

    def change(payload: Any) -> Any:
        mine = [(rows, row) for rows in lists(payload) for row in rows if holds(row, job_id) and holds(row, word)]
        for rows, row in mine:
            rows[rows.index(row)] = renamed(row)
        if mine:
            return payload
        return renamed(payload) if holds(payload, job_id) and holds(payload, word) else None

    return spoiling(change)
