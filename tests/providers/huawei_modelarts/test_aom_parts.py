"""What a job consists of, from poll to poll: the same objects while it is the same job, and none without need."""

from __future__ import annotations

from trainfleet_exporter.model import Accelerators, Job, Status
from trainfleet_exporter.providers.huawei_modelarts.aom_parts import JobParts
from trainfleet_exporter.providers.huawei_modelarts.metric_map import Query
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels

UTILIZATION = Query("ma_container_gpu_util", 0.01, frozenset({"job", "pod", "device"}), "gpu")


def job(nodes: float | None = 2, cards: float = 4, duration: float = 60) -> Job:
    asked = (Accelerators("gpu", "", cards),)
    return Job(job_id="a", status=Status.RUNNING, nodes=nodes, accelerators=asked, duration=duration)


def card(parts: JobParts, pod: str, name: str = "0") -> object:
    return parts.place(Labels(service_id="a", pod_name=pod, gpu_id=name), UTILIZATION, of_cards=True)


def test_a_job_that_only_ran_on_is_the_same() -> None:
    parts = JobParts.of(job(), ("worker-0", "worker-1"))
    assert JobParts.of(job(duration=120), ("worker-0", "worker-1"), parts) is parts


def test_what_was_scaled_has_other_parts_and_the_same_subjects() -> None:
    parts = JobParts.of(job(), ())
    before = card(parts, "x-worker-0"), parts.job, parts.pod("x-worker-0")
    scaled = JobParts.of(job(nodes=3, cards=6), (), parts)
    assert (scaled.pods, scaled.cards) == (3, 6)
    after = card(scaled, "x-worker-0"), scaled.job, scaled.pod("x-worker-0")
    assert [found is known for found, known in zip(after, before, strict=True)] == [True] * 3
    named = JobParts.of(job(nodes=3, cards=6), ("worker-0",), scaled)
    place = named.place(Labels(pod_name="x-worker-0"), UTILIZATION, of_cards=False)
    assert place is named.pod("worker-0")  # what a label means depends on the names of tasks


def test_a_card_has_one_subject_and_so_has_what_has_no_card() -> None:
    parts = JobParts.of(job(), ())
    assert card(parts, "p", "0") is card(parts, "p", "0")
    assert len({card(parts, "p", "0"), card(parts, "p", "1"), card(parts, "q", "0"), card(parts, "p", "")}) == 4
    pod = parts.place(Labels(service_id="a", pod_name="p"), UTILIZATION, of_cards=False)
    assert pod is parts.pod("p")


def test_a_job_that_does_not_tell_of_its_cards_keeps_them_all_the_same() -> None:
    """Else the labels of each would be written anew in every poll."""
    silent = Job(job_id="a", status=Status.RUNNING, nodes=50)
    parts, known = JobParts.of(silent, ()), set[object]()
    for _ in range(2):
        assert JobParts.of(silent, (), parts) is parts
        known |= {card(parts, f"pod-{pod}", str(number)) for pod in range(50) for number in range(8)}
    assert len(known) == 400


def test_pods_that_come_and_go_under_new_names_are_forgotten() -> None:
    """A job that is restarted for months keeps nothing of each of its pods."""
    parts = JobParts.of(job(), ())
    most = 0
    for restart in range(500):
        assert JobParts.of(job(duration=restart), (), parts) is parts
        card(parts, f"pod-{restart}-0")
        card(parts, f"pod-{restart}-1")
        most = max(most, len(parts.subjects))
    assert most <= 100
    for restart in range(500, 1000):  # one that is scaled up and down keeps nothing either
        parts = JobParts.of(job(nodes=2 + restart % 2), (), parts)
        card(parts, f"pod-{restart}-0")
        most = max(most, len(parts.subjects))
    assert most <= 110
    kept = card(parts, "pod-499-0")
    assert JobParts.of(job(nodes=3), (), parts) is parts
    assert card(parts, "pod-499-0") is kept  # it is not each poll that forgets
