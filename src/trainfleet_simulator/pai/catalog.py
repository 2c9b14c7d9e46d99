"""The PAI account: its workspaces, users, machine types, quotas and names of jobs."""

from __future__ import annotations

from trainfleet_simulator.world.nouns import GIB, Machine, PoolSpec, User, Workspace, by_name

REGION = "cn-hangzhou"
ACCOUNT_ID = "1000000000000001"


WORKSPACES = (
    Workspace("12345", "ws_train"),
    Workspace("12346", "ws_vision"),
    Workspace("12347", "ws_speech"),
    Workspace("98765", "ws_hidden", member=False),
)

USERS = (
    User("200000000000000001", "alice", "llm"),
    User("200000000000000002", "bob", "llm"),
    User("200000000000000003", "carol", "vision"),
    User("200000000000000004", "dan", "vision"),
    User("200000000000000005", "erin", "speech"),
    User("200000000000000006", "faythe", "platform"),
)

ECS_SPECS = by_name(
    Machine("ecs.c6.large", 2, 4 * GIB),
    Machine("ecs.g6.2xlarge", 8, 32 * GIB),
    Machine("ecs.g6.8xlarge", 32, 128 * GIB),
    Machine("ecs.gn6v-c8g1.2xlarge", 8, 32 * GIB, 1, "NVIDIA V100", 16),
    Machine("ecs.gn6v-c8g1.8xlarge", 32, 128 * GIB, 4, "NVIDIA V100", 16),
    Machine("ecs.gn6v-c8g1.16xlarge", 64, 256 * GIB, 8, "NVIDIA V100", 16),
    Machine("ecs.gn7i-c16g1.4xlarge", 16, 60 * GIB, 1, "NVIDIA A10", 24),
    Machine("ecs.gn6e-c12g1.3xlarge", 12, 92 * GIB, 1, "NVIDIA V100", 32),
    Machine("ml.gu8tf.8.46xlarge", 184, 1800 * GIB, 8, "GU8T", 96),
)

LINGJUN_NODE = Machine("ml.gu8tf.8.46xlarge", 184, 1800 * GIB, 8, "GU8T", 96, prefix="lrn")
V100_NODE = Machine(
    "ecs.gn6v-c8g1.16xlarge", 64, 256 * GIB, 8, "V100", 16, reserved_cpu=4, reserved_memory=16 * GIB, prefix="ecs"
)

ROOT, TRAIN, VISION = "quota1simlroot", "quota1simtrain", "quota1simvisio"
GENERAL, COMING, HIDDEN = "quota1simgener", "quota1simcomin", "quota1simhidde"

QUOTAS = (
    PoolSpec(ROOT, "lingjun-root", "Lingjun", LINGJUN_NODE, 4, ("12345", "12346")),
    PoolSpec(TRAIN, "pool-train", "Lingjun", LINGJUN_NODE, 6, ("12345",), parent=ROOT),
    PoolSpec(VISION, "pool-vision", "Lingjun", LINGJUN_NODE, 3, ("12346",), parent=ROOT),
    PoolSpec(GENERAL, "pool-general", "ECS", V100_NODE, 5, ("12346", "12347")),
    PoolSpec(COMING, "pool-coming", "Lingjun", LINGJUN_NODE, 0, ("12347",), status="Creating"),
    PoolSpec(HIDDEN, "pool-hidden", "Lingjun", LINGJUN_NODE, 4, ("98765",)),
)

CORDONED = frozenset({GENERAL})
"""Quotas whose last node a user has cordoned. Its jobs continue to run."""
LEASE_DAYS = {TRAIN: 5, VISION: 90, ROOT: 90, HIDDEN: 90}
"""Days from the start to the end of the lease of a quota's first node. Each further lease ends 30 days later. Nodes of
other quotas are pay-as-you-go."""

JOB_TYPES = (
    "PyTorchJob",
    "PyTorchJob",
    "PyTorchJob",
    "PyTorchJob",
    "TFJob",
    "MPIJob",
    "XGBoostJob",
    "ElasticBatchJob",
    "RayJob",
)

MODELS = {
    "llm": ("llm-pretrain-7b", "llm-sft-13b", "reward-model", "tokenizer-stats"),
    "vision": ("resnet-sweep", "vit-large", "segment-anything-ft", "ocr-distil"),
    "speech": ("asr-conformer", "tts-vits", "speaker-id", "wav-features"),
    "platform": ("nightly-smoke", "nccl-check", "dataset-shuffle", "eval-harness"),
}

FAILURES = (
    ("OutOfMemory", "Container worker-0 was killed: out of memory."),
    ("ContainerExitedWithError", "Container of pod worker-0 exited with code 1."),
    ("ImagePullFailed", "Pulling the image failed."),
    ("NodeFault", "The node of pod worker-0 is not ready."),
)
