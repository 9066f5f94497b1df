"""The state of a torch training in one file, as torch's own users would save it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

SUFFIX = ".pt"


def save_state(path: Path, model: Any, optimizers: Iterable[Any]) -> None:
    """Nothing; `torch.load(path)` gives `model` and a list of `optimizers`, their state dictionaries, and `rng`."""
    state = {
        "model": model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "rng": torch.get_rng_state(),
    }
    waiting = path.with_suffix(".part")
    try:
        torch.save(state, waiting)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
