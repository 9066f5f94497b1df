"""Runs that go on from somewhere else than where they stopped."""

from copy import deepcopy
from typing import Any

from torch import nn

from ..script import Script
from ..table import Truth, fault


@fault("old-weights", on="mlp", cause=("resume_mismatch", "loss_spike"))
def old_weights(script: Script) -> Truth:
    """In mid-run the weights of an early checkpoint are loaded, the optimizer keeps its state."""
    onset = script.some_step(0.6, 0.8)
    kept: dict[str, Any] = {}
    script.at(0, lambda: kept.update(deepcopy(script.model.state_dict())))
    script.at(onset, lambda: script.model.load_state_dict(kept))
    return Truth(onset=onset)


@fault("partial-load", on="lm", cause=("resume_mismatch", "loss_spike", "bad_initialization"))
def partial_load(script: Script) -> Truth:
    """`strict=False` hides that the names of one block do not match: it starts anew in mid-run."""
    onset = script.some_step(0.6, 0.8)

    def reset() -> None:
        for module in script.model.blocks[0].modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.3)

    script.at(onset, reset)
    return Truth(onset=onset)
