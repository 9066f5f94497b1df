"""Tells results of a training, such as its loss, from scalars of its course, such as the checksum of a batch."""

from collections.abc import Iterable
from typing import Final

__all__ = ["is_result", "main_scalar"]

#: Scalars that describe the course of a training, not its result.
_COURSE: Final = (
    "batch/",
    "clip/",
    "learning_rate",
    "loss_scale",
    "memory/",
    "step_seconds",
    "target/",
    "throughput/",
    "time/",
)


def is_result(name: str) -> bool:
    """Return whether the scalar is a result of the training."""
    return not name.startswith(_COURSE)


def main_scalar(names: Iterable[str]) -> str:
    """Return the scalar by which a training is judged first; empty if none of them is one.

    That is the loss, else another loss of the training, as `train/loss`, else another result. A checksum, a time or a
    rate is none.
    """
    results = sorted(name for name in names if is_result(name))
    losses = [name for name in results if name.rpartition("/")[2] == "loss"]
    of_training = [name for name in losses if not name.startswith(("validation/", "val/", "test/", "eval/"))]
    if "loss" in losses:
        return "loss"
    return next(iter((*of_training, *losses, *results)), "")
