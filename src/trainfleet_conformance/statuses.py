"""Checks that every documented state is mapped, and that all other words are unknown, not guessed or dropped."""

from __future__ import annotations

import random
from typing import Any

from starlette.responses import Response

from trainfleet_conformance.answers import change_leaves, dumps, holds, lists
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.gateway import Answer, Arrival
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

    def test_status_a_new_word_is_shown_as_unknown(self) -> None:
        """The page shows and counts a job in an unknown state, and labels it with the cloud's word."""

        async def check(stage: Stage) -> None:
            job_id = next(key for key, word in stage.cloud.live_jobs().items() if self.statuses[word] not in FINISHED)
            word = stage.cloud.live_jobs()[job_id]
            stage.gateway.spoil = _renamed(job_id, word)
            await stage.polls(2)
            page = await stage.scrape()
            complaints = []
            found = page.of("trainfleet_job_status", job_id=job_id)
            states = [labels["status"] for labels, value in found if value]
            if states != [str(Status.UNKNOWN)]:
                complaints.append(f"job {job_id} in the state {NEW_WORD!r} is shown as {states or 'nothing'}")
            if not list(page.of("trainfleet_job_platform_status", job_id=job_id, platform_status=NEW_WORD)):
                complaints.append(f"job {job_id} does not show {NEW_WORD!r} as its platform_status")
            counted = page.total("trainfleet_jobs", status="unknown", platform_status=NEW_WORD)
            if counted != 1:
                complaints.append(f"{counted:.0f} jobs are counted as unknown, {NEW_WORD!r}")
            internal = page.total("trainfleet_exporter_collector_errors_total", reason="internal")
            if internal:
                complaints.append("the provider raises what it should not")
            complain(complaints, "keep a job whose state is unknown: status UNKNOWN, its word in platform_status")

        self.on_stage(check)


def _renamed(job_id: str, word: str) -> Any:
    """Give one job another state in all responses."""

    def rename(name: str, value: Any) -> Any:
        return NEW_WORD if value == word else value

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        changed = False
        for rows in lists(payload):
            for place, row in enumerate(rows):
                if holds(row, job_id) and holds(row, word):
                    rows[place], changed = change_leaves(row, rename), True
        if not changed and holds(payload, job_id) and holds(payload, word):
            payload, changed = change_leaves(payload, rename), True
        return answer.response(dumps(payload)) if changed else None

    return spoil
