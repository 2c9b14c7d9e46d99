"""No two exporters poll at the same time, whatever happens to them; and some exporter polls soon after."""

from __future__ import annotations

import pytest

from tests.lease.schedules import Verdict, play
from trainfleet_exporter.lease import elector

MOST_BLIND = 15.0


def _play(seeds: range) -> list[Verdict]:
    """Schedules with two exporters, or with three."""
    return [play(seed, 2 + seed % 2) for seed in seeds]


def _check(verdicts: list[Verdict]) -> None:
    assert [verdict.overlaps[0] for verdict in verdicts if verdict.overlaps] == []
    blind = max(verdict.blind for verdict in verdicts)
    takeovers = sum(verdict.takeovers for verdict in verdicts)
    print(f"{len(verdicts)} schedules, {takeovers} takeovers, no exporter polled for {blind:.1f} s at most")
    assert blind <= MOST_BLIND
    assert takeovers > 2 * len(verdicts)
    assert sum(verdict.polls for verdict in verdicts) > 50 * len(verdicts)


def test_one_exporter_polls_at_a_time() -> None:
    _check(_play(range(50)))


@pytest.mark.long
def test_one_exporter_polls_at_a_time_in_400_schedules() -> None:
    _check(_play(range(400)))


def test_the_judge_sees_an_election_that_waits_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elector, "MARGIN", -4.0)  # the holder goes on until another may have begun
    assert any(play(seed, 2).overlaps for seed in range(20))


def test_the_judge_sees_an_election_that_waits_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elector, "DURATION", 15.0)
    assert any(play(seed, 2).blind > MOST_BLIND for seed in range(20))
