"""The AWS account: its keys, users, instance types, training plans and HyperPod cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainfleet_simulator.world.nouns import GIB, Machine, PoolSpec, User, by_name

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"
ACCESS_KEY_ID = "AKIASIMULATOR7EXAMPLE"
SECRET_ACCESS_KEY = "simulated-secret-access-key"  # noqa: S105 - opens nothing but this simulator
WORKSPACE = "default"
"""The world's one workspace; SageMaker has none."""

USERS = (
    User("AIDASIMANA", "ana", "llm"),
    User("AIDASIMBEN", "ben", "llm"),
    User("AIDASIMCAI", "cai", "vision"),
    User("AIDASIMDEE", "dee", "speech"),
)
MODELS = {
    "llm": ("llama-sft", "mixtral-dpo", "reward-model", "tokenizer"),
    "vision": ("vit-large", "detr-sweep", "ocr"),
    "speech": ("asr-conformer", "tts-distil"),
}
FAILURES = (
    ("AlgorithmError", 'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "CUDA out of memory"'),
    ("AlgorithmError", 'ExecuteUserScriptError:\nExitCode 137\nErrorMessage "killed"'),
    ("ClientError", "Data download failed: no objects found under the S3 prefix."),
    ("InternalServerError", "We encountered an internal error. Please try again."),
)
"""The word before the colon of FailureReason, and the text after it."""
MAX_RUNTIME = ("MaxRuntimeExceeded", "")
MAX_WAIT = ("MaxWaitTimeExceeded", "")
"""The secondary status of a job that SageMaker stops because its maximum wait is over."""


INSTANCE_TYPES = by_name(
    Machine("ml.p5.48xlarge", 192, 2048 * GIB, 8, "h100", 80),
    Machine("ml.p4d.24xlarge", 96, 1152 * GIB, 8, "a100", 40),
    Machine("ml.g5.12xlarge", 48, 192 * GIB, 4, "a10g", 24),
    Machine("ml.g5.2xlarge", 8, 32 * GIB, 1, "a10g", 24),
    Machine("ml.g6.4xlarge", 16, 64 * GIB, 1, "l4", 24),
    Machine("ml.trn1.32xlarge", 128, 512 * GIB, 16, "trainium", 32),
    Machine("ml.m5.4xlarge", 16, 64 * GIB),
    Machine("ml.c5.9xlarge", 36, 72 * GIB),
)

JOBS_PLAN = "p5-reserved"
CLUSTER_PLAN = "hyperpod-p5"
COMING_PLAN = "p5-next-quarter"
_P5_NODE = replace(INSTANCE_TYPES["ml.p5.48xlarge"], prefix="p5")
PLANS = (PoolSpec(JOBS_PLAN, JOBS_PLAN, "TrainingPlan", _P5_NODE, 6, (WORKSPACE,), status="Active"),)
"""The plans with instances for training jobs, which wait for them in a queue."""

CLUSTER = "hyperpod-llm"
CLUSTER_ID = "k3f9a7c2d1e8"


@dataclass(frozen=True, slots=True)
class Group:
    """An instance group of the cluster: its target number of instances, and the states of the existing ones."""

    name: str
    instance_type: str
    target: int
    states: tuple[str, ...]
    status: str = "InService"
    plan: str = ""


GROUPS = (
    Group("controller", "ml.m5.4xlarge", 1, ("Running",)),
    Group(
        "p5-workers",
        "ml.p5.48xlarge",
        8,
        ("Running", "Running", "Failure", "Running", "Running", "Running", "DeepHealthCheckInProgress"),
        status="Degraded",
        plan=CLUSTER_PLAN,
    ),
    Group("g5-dev", "ml.g5.12xlarge", 2, ("Running", "Pending"), status="Updating"),
)


def arn(kind: str, name: str) -> str:
    """Return the ARN of a SageMaker resource."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT_ID}:{kind}/{name}"
