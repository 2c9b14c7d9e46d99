"""What the samples of a job are of, from poll to poll: the same names while it is the same job."""

from __future__ import annotations

from trainfleet_exporter.model import Accelerators, Job, Status
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import JobNames
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import Query
from trainfleet_exporter.providers.usage.entities import Key
from trainfleet_exporter.providers.usage.sized import Makeup

UTILIZATION = Query("ma_container_gpu_util", 0.01, frozenset({"job", "pod", "device"}), "gpu")


def job(nodes: float | None = 2, cards: float = 4, duration: float = 60) -> Job:
    asked = (Accelerators("gpu", "", cards),)
    return Job(job_id="a", status=Status.RUNNING, nodes=nodes, accelerators=asked, duration=duration)


def card(names: JobNames, pod: str, name: str = "0") -> Key:
    return names.key(Labels(service_id="a", pod_name=pod, gpu_id=name), UTILIZATION, of_cards=True)


def test_a_job_that_only_ran_on_is_the_same() -> None:
    names = JobNames.of(job(), ("worker-0", "worker-1"))
    assert JobNames.of(job(duration=120), ("worker-0", "worker-1"), names) is names
    assert names.makeup == Makeup(pods=2, cards=4, uniform=True)


def test_a_scaled_job_has_another_makeup_and_the_same_parts() -> None:
    names = JobNames.of(job(), ())
    scaled = JobNames.of(job(nodes=3, cards=6), (), names)
    assert scaled.makeup == Makeup(pods=3, cards=6, uniform=False)
    assert card(scaled, "x-worker-0") == card(names, "x-worker-0") == ("a", "x-worker-0", "0", "gpu")
    named = JobNames.of(job(nodes=3, cards=6), ("worker-0",), scaled)
    # What a label means depends on the names of tasks.
    assert named.key(Labels(pod_name="x-worker-0"), UTILIZATION, of_cards=False) == ("a", "worker-0")


def test_a_card_has_one_key_and_so_has_what_has_no_card() -> None:
    names = JobNames.of(job(), ())
    assert len({card(names, "p", "0"), card(names, "p", "1"), card(names, "q", "0"), card(names, "p", "")}) == 4
    assert names.key(Labels(service_id="a", pod_name="p"), UTILIZATION, of_cards=False) == ("a", "p")


def test_pods_that_come_and_go_under_new_names_are_forgotten() -> None:
    """A job that is restarted for months keeps nothing of each of its pods."""
    names = JobNames.of(job(), ())
    most = 0
    for restart in range(500):
        assert JobNames.of(job(duration=restart), (), names) is names
        card(names, f"pod-{restart}-0")
        card(names, f"pod-{restart}-1")
        most = max(most, len(names._pods))
    assert most <= 100
