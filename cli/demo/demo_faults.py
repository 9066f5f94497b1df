"""Faults that the demo injects into a training, for the diagnosis to find.

A fault strikes once: those of step 0 before the optimizer and the monitor see the model, the others right before the
forward of their step. Each names the cause, the site and the step that the diagnosis must report.
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
        cause: The cause that the diagnosis must report.
        step: The step at which the fault strikes.
        sites: The site of the fault by name of the task; the diagnosis must report the same site.
        strike: Injects the fault.
    """

    name: str
    cause: str
    step: int
    sites: Mapping[str, str]
    strike: Callable[[Training, str], None]

    @property
    def summary(self) -> str:
        """One sentence that says what the fault does to the training."""
        return (self.strike.__doc__ or "").partition("\n")[0]

    def step_within(self, steps: int) -> int:
        """Return the step at which the fault strikes: its own, or half of `steps` in a run too short for that."""
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
    """Replace one value of a layer's output by NaN from one step on, as a division by zero in its kernel would."""
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
    """Multiply the learning rate by 300 from one step on, as a mistake in a schedule would."""
    for group in training.optimizer.param_groups:
        group["lr"] *= 300.0


@fault("dead-relu", cause="dead_units", step=0, sites={"cnn": "act2", "transformer": "decoder.1.mlp.act"})
def dead_relu(training: Training, site: str) -> None:
    """Set the bias of the layer before one ReLU so low that none of its units ever fires."""
    bias = training.model.parameters_dict()[f"{_FEEDS[site]}.bias"]
    bias.set_data(Tensor(np.full(bias.shape, -100.0, dtype=np.float32)))


@fault("frozen-layer", cause="frozen_parameter", step=0, sites={"cnn": "conv2", "transformer": "decoder.1.mlp.up"})
def frozen_layer(training: Training, site: str) -> None:
    """Switch off the gradients of one layer's parameters, as an earlier fine-tuning may leave them."""
    for parameter in _cell(training.model, site).get_parameters():
        parameter.requires_grad = False


@fault("missing-zero-grad", cause="missing_zero_grad", step=30, sites={"cnn": "", "transformer": ""})
def missing_zero_grad(training: Training, site: str) -> None:
    """Stop clearing gradients from one step on, so that they add up."""
    training.clears_gradients = False


def _cell(model: Cell, site: str) -> Cell:
    return dict(model.cells_and_names())[site]
