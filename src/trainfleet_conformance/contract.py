"""Checks that families and labels are in the exporter's table, values in base units, states mapped and pages valid."""

from __future__ import annotations

import math
import random
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainfleet_conformance.answers import change_leaves, holds, lists, spoiling
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.page import DATED, Key, Page, key_of, samples, words
from trainfleet_conformance.stage import PROVIDER, Spoil
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.model import FINISHED, Status

_OF_HISTOGRAM = {"_bucket": ("le",), "_sum": (), "_count": ()}
_TABLE = {
    f"{family.name}{ending}": None if labels is None else frozenset(("provider", *KEYS[family.of][0], *labels))
    for family in FAMILIES
    for ending, labels in (_OF_HISTOGRAM if family.kind == "histogram" else {"": family.labels}).items()
}
"""By sample name, its labels; None if the config chooses them. Read at import, before anything runs."""
_OVER = frozenset(map(str, FINISHED))
ENDED = "trainfleet_jobs_finished_total"
NEW_WORD = "Sublimating"
_ODD_WORDS = ("", " ", "0", "-1", "null", "None", "\x00", "x" * 10_000, "__class__", NEW_WORD)


def strangers(page: Page) -> list[str]:
    """Return families and labels of a page that are not in the exporter's table."""
    found = set()
    for family, pairs in page.shown:
        names = frozenset(name for name, _ in pairs)
        wanted = _TABLE.get(family, frozenset())
        if family not in _TABLE:
            found.add(f"{family} is no family of the exporter")
        elif wanted is not None and names != wanted:
            found.add(f"{family} has the labels {sorted(names)}, not {sorted(wanted)}")
        elif ("provider", PROVIDER) not in pairs:
            found.add(f"{words((family, pairs))} does not say which provider it is of")
    return sorted(found)


def untrue_numbers(page: Page) -> Iterator[str]:
    """Return values that no measurement can have."""
    for key, value in page.shown.items():
        if not math.isfinite(value) or value < 0:
            yield f"{words(key)} is {value}"
        # A job may use more CPU than it requested.
        elif key[0].endswith("_ratio") and value > 1 and not key[0].endswith("_cpu_utilization_ratio"):
            yield f"{words(key)} is {value}: ratios are 0 to 1"


def miscounted(page: Page, live: Mapping[str, str], words_of_states: Iterable[str]) -> list[str]:
    """Return the states in which the page counts another number of jobs than the cloud has."""
    truth = Counter(live.values())
    counted = {word: page.total("trainfleet_jobs", platform_status=word) for word in words_of_states}
    return [
        f"{count:.0f} jobs are counted as {word!r}, where the cloud has {truth[word]}"
        for word, count in counted.items()
        if count != truth[word]
    ]


def not_shown_as(page: Page, wanted: Mapping[str, Status]) -> list[str]:
    """Return the jobs that the page does not show with these statuses."""
    return [
        f"job {job_id} is {status}, and is shown as {page.states_of(job_id) or 'nothing'}"
        for job_id, status in wanted.items()
        if page.states_of(job_id) != [str(status)]
    ]


class ContractChecks(ProviderCase):
    """Checks of a good page, and of the mapping of states."""

    def test_contract_families_and_labels_are_of_the_table(self) -> None:
        """A provider publishes objects of model.py and does not render them."""
        advice = "publish objects of trainfleet_exporter.model, and leave families and labels to the exporter"
        complain(strangers(self.good.page), advice)

    def test_contract_values_are_in_base_units(self) -> None:
        """Ratios are 0 to 1 and not percent; nothing is below 0, NaN or infinite."""
        complain(untrue_numbers(self.good.page), "translate to the units of model.py (fleet/quantities.py)")

    def test_contract_known_samples_are_shown(self) -> None:
        """The page has times, and the samples whose values the tests know."""
        shown = self.good.page.shown
        times = [name for name, _ in shown if name.endswith("_timestamp_seconds") and name not in DATED]
        complaints = ["no time is shown"] * (not times)
        for series, value in self.samples.items():
            found = shown.get(_key(series), math.nan)
            if not math.isclose(found, value, rel_tol=1e-9):
                complaints.append(f"the cloud says {series} {value}, and the page has {found}")
        complain(complaints, "look for a unit that was not translated, or a field that is read under another name")

    def test_contract_every_live_job_is_shown_once_and_as_it_is(self) -> None:
        """The page has exactly the jobs of the cloud, from all pages of lists and all workspaces, and counts them."""
        page, truth = self.good.page, self.good.truth
        complaints = not_shown_as(page, {job: self.statuses[word] for job, word in truth.items()})
        for job_id in sorted({labels["job_id"] for labels, _ in page.of("trainfleet_job_status")} - truth.keys()):
            states = page.states_of(job_id)
            if len(states) != 1 or states[0] not in _OVER:
                complaints.append(f"job {job_id} is shown as {states}, and the cloud has no such live job")
        counted = {labels["platform_status"] for labels, _ in page.of("trainfleet_jobs")}
        live = [word for word in counted.union(truth.values()) if self.statuses.get(word) not in FINISHED]
        complaints += miscounted(page, truth, live)
        advice = "read each page of each list (fleet/lists.py, read_whole_list); count what was listed, before filters"
        complain(complaints, advice)

    def test_contract_counts_have_every_known_state(self) -> None:
        """A state without jobs has a count of 0: an alert cannot wait for a missing series."""
        page = self.good.page
        workspaces = sorted({labels["workspace_id"] for labels, _ in page.of("trainfleet_jobs")})
        known = [
            ("trainfleet_jobs", {"platform_status": word, "status": str(status)})
            for word, status in self.statuses.items()
            if word not in self.not_counted
        ]
        known += [(ENDED, {"status": status}) for status in sorted(_OVER)]
        complaints = ["trainfleet_jobs is not on the page"] * (not workspaces)
        complaints += [
            f"workspace {name} has no count of jobs in {family} with {labels}"
            for name in workspaces
            for family, labels in known
            if not any(page.of(family, workspace_id=name, **labels))
        ]
        complain(complaints, "give Workspaces the pairs of live states, and publish a JobCount for each other pair")

    def test_status_each_word_is_mapped_and_none_is_guessed(self) -> None:
        """Documented states map to their statuses. Random words and words that resemble a state are unknown."""
        others = {*_ODD_WORDS, *(f"{word}{more}" for word in self.statuses for more in ("x", " ", "ing", "\n"))}
        chance = random.Random(1)
        others |= {"".join(chance.choices(string.printable, k=chance.randrange(1, 20))) for _ in range(200)}
        complaints = []
        for word, status in {**dict.fromkeys(sorted(others), Status.UNKNOWN), **self.statuses}.items():
            try:
                found = str(self.status_of(word))
            except Exception as error:  # noqa: BLE001 - the check reports any exception
                found = f"an exception, {type(error).__name__}"
            if found != str(status):
                complaints.append(f"{word[:40]!r} is taken for {found}, and is {status}")
        complain(complaints, "map each state by a table, word for word: STATUS.get(word, Status.UNKNOWN)")

    def test_status_a_new_word_is_shown_as_unknown(self) -> None:
        """The page shows and counts a job in an unknown state, and labels it with the cloud's word."""
        job_id, word = next(item for item in self.good.truth.items() if self.statuses[item[1]] not in FINISHED)
        with self.stage() as stage:
            page = stage.page(2, _renamed(job_id, word))
        complaints = page.complaints + not_shown_as(page, {job_id: Status.UNKNOWN})
        if not list(page.of("trainfleet_job_platform_status", job_id=job_id, platform_status=NEW_WORD)):
            complaints.append(f"job {job_id} does not show {NEW_WORD!r} as its platform_status")
        counted = page.total("trainfleet_jobs", status="unknown", platform_status=NEW_WORD)
        if counted != 1:
            complaints.append(f"{counted:.0f} jobs are counted as unknown, {NEW_WORD!r}")
        complain(complaints, "keep a job whose state is unknown: status UNKNOWN, its word in platform_status")


def _key(series: str) -> Key:
    name, _, labels = series.partition("{")
    line = f'{name}{{provider="{PROVIDER}"' + (f",{labels}" if labels else "}") + " 0\n"
    ((_, found, _),) = samples(line.encode())
    return key_of(name, found)


def _renamed(job_id: str, word: str) -> Spoil:
    """Give one job another state in all responses: in its row, or in a response about this job alone."""

    def renamed(value: Any) -> Any:
        return change_leaves(value, lambda name, leaf: NEW_WORD if leaf == word else leaf)

    def change(payload: Any) -> Any:
        if not holds(payload, job_id, word):
            return None
        mine = [rows for rows in lists(payload) if any(holds(row, job_id, word) for row in rows)]
        for rows in mine:
            rows[:] = [renamed(row) if holds(row, job_id, word) else row for row in rows]
        return payload if mine else renamed(payload)

    return spoiling(change)
