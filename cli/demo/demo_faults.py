"""What can be done to a training that the diagnosis must find without being told.

A fault strikes once: those of step 0 before the optimizer and the monitor come to the model, the others right before
the forward of their step. Beside each stands what it is a case of: the cause, the site and the step to be found.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...framework import Tensor
from ...framework.nn import Cell
from .demo_tasks import Training

FAULTS: Final[dict[str, "Fault"]] = {}

#: The layer whose output each ReLU takes.
_FEEDS: Final = {"act2": "conv2", "decoder.1.mlp.act": "decoder.1.mlp.up"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to harm a training.

    Args:
        cause: What the diagnosis must call it.
        step: When it strikes.
        sites: Where it strikes, by the task's name, which is where the diagnosis must see it.
        strike: Does it.
    """

    name: str
    cause: str
    step: int
    sites: Mapping[str, str]
    strike: Callable[[Training, str], None]

    @property
    def summary(self) -> str:
        """One sentence for a person: what is done to the training."""
        return (self.strike.__doc__ or "").partition("\n")[0]

    def step_within(self, steps: int) -> int:
        """Return when it strikes in a run of `steps`: its own step, or halfway when the run is too short for that."""
        return min(self.step, steps // 2)


def fault(
    name: str, *, cause: str, step: int, sites: Mapping[str, str]
) -> Callable[[Callable[[Training, str], None]], Callable[[Training, str], None]]:
    """Return the decorator that enters a fault into `FAULTS`."""

    def enter(strike: Callable[[Training, str], None]) -> Callable[[Training, str], None]:
        if name in FAULTS:
            raise ValueError(f"there are two faults named {name!r}")
        FAULTS[name] = Fault(name, cause, step, sites, strike)
        return strike

    return enter


@fault(
    "nan-at-layer",
    cause="non_finite_activation",
    step=30,
    sites={"cnn": "conv2", "transformer": "decoder.2.attn.out_proj"},
)
def nan_at_layer(training: Training, site: str) -> None:
    """From one step on, one value that a layer puts out is NaN, as from a division by zero in its kernel."""
    cell = _cell(training.model, site)
    intact = cell.construct

    def construct(*inputs: Tensor) -> Tensor:
        output: Tensor = intact(*inputs)
        crack = np.zeros(output.shape, dtype=np.float32)
        crack.flat[0] = np.nan
        broken: Tensor = output + Tensor(crack)
        return broken

    vars(cell)["construct"] = construct


@fault("lr-too-high", cause="learning_rate_too_high", step=30, sites={"cnn": "", "transformer": ""})
def lr_too_high(training: Training, site: str) -> None:
    """From one step on, the learning rate is 300 times what it was, as from a slip in a schedule."""
    for group in training.optimizer.param_groups:
        group["lr"] *= 300.0


@fault("dead-relu", cause="dead_units", step=0, sites={"cnn": "act2", "transformer": "decoder.1.mlp.act"})
def dead_relu(training: Training, site: str) -> None:
    """The layer before one ReLU starts with a bias so low that none of its units ever fires."""
    bias = training.model.parameters_dict()[f"{_FEEDS[site]}.bias"]
    bias.set_data(Tensor(np.full(bias.shape, -100.0, dtype=np.float32)))


@fault("frozen-layer", cause="frozen_parameter", step=0, sites={"cnn": "conv2", "transformer": "decoder.1.mlp.up"})
def frozen_layer(training: Training, site: str) -> None:
    """The parameters of one layer require no gradient, as left behind by an earlier fine-tuning."""
    for parameter in _cell(training.model, site).get_parameters():
        parameter.requires_grad = False


@fault("missing-zero-grad", cause="missing_zero_grad", step=30, sites={"cnn": "", "transformer": ""})
def missing_zero_grad(training: Training, site: str) -> None:
    """From one step on, gradients are no longer cleared and pile up."""
    training.clears_gradients = False


def _cell(model: Cell, site: str) -> Cell:
    return dict(model.cells_and_names())[site]
