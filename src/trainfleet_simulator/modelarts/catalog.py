"""The ModelArts project: its keys, workspaces, users, flavors, pools, names of jobs, and form of errors."""

from __future__ import annotations

from typing import Any

from trainfleet_simulator.exchange import ApiError
from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.nouns import GIB, Machine, PoolSpec, User, Workspace, by_name

REGION = "cn-north-4"
PROJECT_ID = "5f0c8e1d2b7a49c6a3d4e5f60718293a"
OTHER_PROJECT_ID = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
PROJECTS = {REGION: PROJECT_ID, "cn-east-3": OTHER_PROJECT_ID}

ACCESS_KEY = "HUAWEISIMULATORAK"
SECRET_KEY = "simulated-secret-key"  # noqa: S105 - opens nothing but this simulator
USER_NAME = "exporter"
PASSWORD = "simulated-password"  # noqa: S105 - likewise
DOMAIN_NAME = "sim-account"
DOMAIN_ID = "d0a1b2c3d4e5f60718293a4b5c6d7e8f"

DEFAULT, TEAM_WORKSPACE = "0", "c7d8e9fa0b1c2d3e4f5061728394a5b6"
WORKSPACES = (
    Workspace(DEFAULT, "default"),
    Workspace(TEAM_WORKSPACE, "vision-team"),
)
USERS = (
    User("0a1b2c3d4e5f60718293a4b5c6d7e801", "li.na", "llm"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e802", "zhang.wei", "llm"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e803", "chen.jie", "vision"),
    User("0a1b2c3d4e5f60718293a4b5c6d7e804", "wang.fang", "vision"),
)
MODELS = {
    "llm": ("pangu-sft", "llama-dpo", "tokenizer-stats", "reward-model"),
    "vision": ("yolo-sweep", "vit-base", "ocr-finetune", "pose-distil"),
}

NODE_FAULT = "NodeFault"
FAILURES = (
    ("ContainerExitedWithError", "worker-0 exited with code 1."),
    ("ContainerExitedWithError", "worker-0 exited with code 1."),
    ("OutOfMemory", "worker-0 was killed: out of memory."),
    (NODE_FAULT, "The node of worker-0 was lost."),
)


FLAVORS = by_name(
    Machine("modelarts.vm.cpu.8u", 8, 32 * GIB),
    Machine("modelarts.vm.gpu.v100", 8, 64 * GIB, 1, "NVIDIA-V100", 32),
    Machine("modelarts.vm.gpu.8v100", 72, 512 * GIB, 8, "NVIDIA-V100", 32),
    Machine("modelarts.kat1.xlarge", 24, 96 * GIB, 1, "ascend-snt9", 32),
    Machine("modelarts.kat1.8xlarge", 192, 720 * GIB, 8, "ascend-snt9", 32),
)

ASCEND_CARD, GPU_CARD = "ascend-snt9b", "nvidia-v100"
ASCEND_NODE = Machine("modelarts.bm.npu.arm.8snt9b", 192, 1536 * GIB, 8, ASCEND_CARD, 64, prefix="os-node-created")
GPU_NODE = Machine("modelarts.vm.gpu.8v100.pool", 72, 512 * GIB, 8, GPU_CARD, 32, prefix="os-node-created")

ASCEND = "pool-7a1c-0f0e4b1f9f593c7f0b6f2a11aabbccdd"
ASCEND_TEAM = "pool-7a1d-19b2c3d4e5f60718293a4b5c6d7e8f90"
GPU = "pool-31f0-5e6f708192a3b4c5d6e7f8091a2b3c4d"
COMING = "pool-90aa-77889900aabbccddeeff001122334455"
NEVER_CAME = "pool-0bad-00112233445566778899aabbccddeeff"

POOLS = (
    PoolSpec(ASCEND, "ascend-train", "Dedicate", ASCEND_NODE, 6, (DEFAULT,), status="Running"),
    PoolSpec(ASCEND_TEAM, "ascend-team", "Logical", ASCEND_NODE, 4, (DEFAULT,), parent=ASCEND, status="Running"),
    PoolSpec(GPU, "gpu-vision", "Dedicate", GPU_NODE, 5, (TEAM_WORKSPACE,), status="Running"),
    PoolSpec(COMING, "ascend-coming", "Dedicate", ASCEND_NODE, 0, (DEFAULT,), status="Creating"),
    PoolSpec(NEVER_CAME, "gpu-never", "Dedicate", GPU_NODE, 0, (DEFAULT,), status="CreationFailed"),
)
ABNORMAL_NODES = {GPU: 1}
"""Bound but broken nodes. They run nothing, and no capacity counts them."""

DEVICE_KEYS = {ASCEND_CARD: "huawei.com/ascend-1980", GPU_CARD: "nvidia.com/gpu"}
NODE_DEVICE_KEYS = {ASCEND_CARD: "huawei.com/ascend-snt9", GPU_CARD: "nvidia.com/gpu"}

OTHER_WORKLOADS = {
    ASCEND: (("notebook", "notebook-li-na", "Running"), ("infer", "pangu-chat", "Running")),
    GPU: (("notebook", "notebook-chen-jie", "Running"), ("infer", "ocr-service", "Abnormal")),
}
"""Other workloads in pools: type, name, status. They never end and use almost nothing."""


def refused(number: str, message: str, status: int = 400) -> ApiError:
    """Return an error of ModelArts, by the number behind its dot."""
    return ApiError(status, f"ModelArts.{number}", message)


def workspace_of(world: World, given: Any) -> str:
    """Return a workspace's id. The default is the default workspace, never all of them."""
    known = [workspace.workspace_id for workspace in WORKSPACES]
    asked = DEFAULT if given in (None, "") else given
    if asked not in known or asked in world.hidden:
        raise refused("0112", "The workspace does not exist or may not be used.", 403)
    return str(asked)
