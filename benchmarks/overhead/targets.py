"""The table that the monitor is measured by: models, rows, what each may cost, and who else is asked."""

from collections.abc import Mapping

MODELS: Mapping[str, str] = {
    "small-mlp": "MLP 784-256-256-10 b128",
    "cnn": "CNN 28x28 b64",
    "small-gpt": "GPT 0.9M s128 b8",
    "gpt": "GPT 4x256 s128 b8",
}
#: What is recorded, and the ratio of the process's CPU time that this may take, in the order of the models.
TARGETS: Mapping[str, tuple[float, float, float, float]] = {
    "gradients": (1.10, 1.03, 1.04, 1.02),
    "everything": (1.35, 1.20, 1.20, 1.10),
    "every 10th": (1.04, 1.02, 1.02, 1.01),
    "nothing due": (1.01, 1.01, 1.01, 1.01),
    "detached": (1.01, 1.01, 1.01, 1.01),
}
#: The peer that costs nearly what we do, and is measured for as long.
NEAREST = "hooks by hand, 4 statistics"
#: The others, and the rows that they can be configured to.
PEERS: Mapping[str, tuple[str, ...]] = {
    NEAREST: ("gradients", "everything", "every 10th"),
    "hooks by hand, 9 statistics": ("gradients", "everything", "every 10th"),
    "msprobe": ("gradients", "everything", "every 10th", "nothing due"),
    "trainscope": ("everything", "every 10th", "nothing due"),
    "trainscope, its default": ("everything",),
    "torchmortem": ("everything", "every 10th"),
}

#: What the rows may cost GPT-2 124M in bfloat16 on a GPU, on the wall: its processor waits for it anyway.
GPU_MODEL, GPU_CASE = "gpt2", "GPT-2 124M bf16 s1024 b8 on a GPU"
GPU_TARGETS: Mapping[str, float] = {"everything": 1.02, "every 10th": 1.005}


def target_of(model: str, row: str) -> float:
    """What the row may cost on the model."""
    return TARGETS[row][list(MODELS).index(model)]
