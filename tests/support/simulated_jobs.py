"""The history of a simulated job in the exporter's terms, for tests that compare both."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from trainfleet_simulator.modelarts.catalog import NODE_FAULT
from trainfleet_simulator.sagemaker.catalog import SPOT
from trainfleet_simulator.sagemaker.training import transitions
from trainfleet_simulator.world.jobs import Job

PAI_PHASES = {
    "Creating": "queued",
    "Queuing": "queued",
    "Bidding": "queued",
    "EnvPreparing": "preparing",
    "SanityChecking": "checking",
    "Running": "running",
    "Restarting": "recovering",
}
SAGEMAKER_PHASES = {
    "Starting": "preparing",
    "Pending": "queued",
    "Downloading": "preparing",
    "Training": "running",
    "Interrupted": "queued",
    "Restarting": "recovering",
    "Uploading": "finishing",
}


def phases(cloud: str, job: Job, now: float) -> Mapping[str, float]:
    """Return the seconds of a job by phase until now."""
    end = now if job.work_ended is None else job.work_ended
    lost: list[tuple[float, int]] = [((loss.over or end) - loss.at, loss.at) for loss in job.losses]
    found: defaultdict[str, float] = defaultdict(float)
    if cloud == "pai":
        ends = [*(since for _, since in job.statuses[1:]), now]
        for (status, since), until in zip(job.statuses, ends, strict=True):
            if status in PAI_PHASES:
                found[PAI_PHASES[status]] += until - since
        shown = {since for status, since in job.statuses if status == "Restarting"}
        for seconds, at in lost:
            if at not in shown:
                found["recovering"] += seconds
                found["running"] -= seconds
        return found
    if cloud == "sagemaker":
        for step in transitions(job, int(now)):
            if step.status in SAGEMAKER_PHASES:
                found[SAGEMAKER_PHASES[step.status]] += (step.end or now) - step.start
        return found
    if job.running is None:
        return {"queued": now - job.created}
    found["queued"] = job.running - job.created
    starts = [job.running, *(loss.over for loss in job.losses if loss.over is not None)]
    ends = [*(loss.at for loss in job.losses), end]
    ready = 3 + job.created % 5 if any(role.cards for role in job.draft.roles) else 0
    for start, until in zip(starts, ends, strict=False):
        if ready and now >= start + ready:
            found["preparing"] += min(ready, until - start)
        found["running"] += until - start
    found["running"] -= found["preparing"]
    found["recovering"] = sum([seconds for seconds, _ in lost])
    return found


def faults(cloud: str, job: Job) -> Counter[str]:
    """Return the faults of a finished job by cause. ModelArts does not report preemption, and SageMaker no other."""
    if cloud == "sagemaker":
        words = [step.status for step in transitions(job, job.finished or 0)]
        pairs = zip(["", *words], words, strict=False)
        return Counter(
            preempted=words.count("Interrupted"),
            other=sum(word == "Restarting" and before != "Interrupted" for before, word in pairs),
        )
    found = Counter(loss.fault for loss in job.losses)
    if cloud == "modelarts":
        found["process"] += found.pop("preempted", 0)
        found["node"] += job.reason[0] == NODE_FAULT
    return found


def held(cloud: str, job: Job) -> float:
    """Return the seconds for which a finished job held its nodes. On SageMaker, a spot job loses them meanwhile."""
    placed = [since for status, since in job.statuses if status == "EnvPreparing"]
    if not placed:
        return 0.0
    return (job.finished or 0) - placed[0] - sum(_without_nodes(job) if cloud == "sagemaker" else ())


def lost(cloud: str, job: Job) -> float:
    """Return the seconds for which a finished job held its nodes, and did not train."""
    found = phases(cloud, job, job.finished or 0)
    seconds = sum(found.get(phase, 0) for phase in ("preparing", "checking", "recovering", "finishing"))
    if cloud == "sagemaker":
        steps = transitions(job, job.finished or 0)
        seconds -= sum((step.end or step.start) - step.start for step in steps if step.status == "Starting")
        if job.draft.payment == SPOT:
            seconds -= found["recovering"]
    return seconds


def _without_nodes(job: Job) -> Iterator[float]:
    """Yield the seconds of each interruption of a spot job, in which it may also be stopped."""
    ends = [*(since for _, since in job.statuses[1:]), job.finished or 0]
    before = ""
    for (status, since), end in zip(job.statuses, ends, strict=True):
        if job.draft.payment == SPOT and "Restarting" in (status, status == "Stopping" and before):
            yield end - since
        before = status


def cards(job: Job) -> int:
    """Return the number of accelerators of a job."""
    return sum(role.count * role.cards for role in job.draft.roles)
