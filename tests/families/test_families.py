"""The table of families against the public contract, and each family's rules."""

from __future__ import annotations

from tests.exposition.examples import EXAMPLES
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.model import Accelerators, Job, JobPods, PoolQueue, RoleCount

FULL = {type(examples[0]): examples[0] for examples in EXAMPLES.values()}


def test_keys_cover_every_class_that_a_family_reads() -> None:
    assert {family.of for family in FAMILIES} == set(FULL)
    assert set(KEYS) == set(FULL)
    for of, (names, read) in ((of, KEYS[of]) for of in FULL):
        assert len(read(FULL[of])) == len(names)


def test_entries_that_share_their_labels_are_added_up() -> None:
    # Two node groups of one accelerator model are one series: the same series twice would break the page.
    job = Job(job_id="a", accelerators=(Accelerators("gpu", "A10", 8), Accelerators("gpu", "A10", 4)))
    pods = JobPods(job_id="a", requested=(RoleCount("Worker", 2), RoleCount("Worker", 3), RoleCount("PS", 1)))
    queue = PoolQueue("a", (Accelerators("gpu", "A10", 8), Accelerators("gpu", "L20", 0.5), Accelerators("npu", "", 0)))
    read = {family.name: family.read for family in FAMILIES}
    assert read["trainfleet_job_requested_accelerators"]([job], "a") == (["a"], [("gpu", "A10")], [12])
    assert read["trainfleet_job_requested_pods"]([pods], "a") == (["a"] * 2, [("Worker",), ("PS",)], [5, 1])
    assert read["trainfleet_pool_queued_accelerators"]([queue], "a") == (["a"] * 2, [("gpu",), ("npu",)], [8.5, 0])
