"""Healthy trainings in which something is slow: no hang is to be reported."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from .faults import Step


def _work(seconds: float) -> None:
    """Use the processor for so long, as an evaluation or a compilation does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(64, 64) @ torch.randn(64, 64)


def sleeps_shortly(step: Step) -> None:
    """Rank 1 is away for less than is too long."""
    time.sleep(3.5)


def evaluates(step: Step) -> None:
    """Rank 1 evaluates alone."""
    _work(14.0)


def writes_checkpoint(step: Step) -> None:
    """Rank 1 writes a large checkpoint again and again."""
    end = time.monotonic() + 14.0
    while time.monotonic() < end:
        torch.save({"weight": torch.ones(4 << 20)}, step.folder / "checkpoint.pt")


def starts_late(step: Step) -> None:
    """Rank 1 waits for something before its first step."""
    time.sleep(12.0)


@dataclass(frozen=True)
class Control:
    """A healthy training, and for how long it is watched."""

    job: dict[str, Any]
    seconds: float


CONTROLS = {
    "nothing slow": Control({"size": 2, "steps": 400}, 30.0),
    "slow first step": Control({"size": 2, "pause": starts_late, "at": 0, "steps": 200}, 40.0),
    "evaluation in one rank": Control({"size": 2, "pause": evaluates, "steps": 200}, 45.0),
    "checkpoint in one rank": Control({"size": 2, "pause": writes_checkpoint, "steps": 200}, 45.0),
    "evaluation in one rank, DDP": Control({"size": 4, "pause": evaluates, "steps": 200, "is_ddp": True}, 45.0),
    "a pipeline": Control({"size": 4, "is_pipeline": True, "steps": 400}, 40.0),
    "work in one stage of a pipeline": Control(
        {"size": 4, "is_pipeline": True, "pause": evaluates, "steps": 200}, 45.0
    ),
    "a short pause": Control({"size": 4, "pause": sleeps_shortly, "steps": 200}, 30.0),
}
