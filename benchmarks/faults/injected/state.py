"""State of optimizers, and weights, that somebody writes between two steps."""

from copy import deepcopy
from typing import Any

import torch
from torch.nn import functional

from ..script import Script
from ..table import Truth, fault


@fault("momentum-lost", on="cnn", cause="optimizer_state_stale", is_silent=True)
def momentum_lost(script: Script) -> Truth:
    """The state of plain momentum, which counts no steps, is dropped in mid-run."""
    onset = script.some_step()
    script.at(onset, lambda: script.optimizer.state.clear())
    return Truth(onset=onset)


@fault("squares-of-another-run", on="autoencoder", cause="optimizer_state_stale", is_silent=True)
def squares_of_another_run(script: Script) -> Truth:
    """RMSprop goes on with the squares of a run whose loss was a sum and not a mean: it hardly moves for a while."""
    onset = script.some_step()

    def load() -> None:
        for state in script.optimizer.state.values():
            state["square_avg"].mul_(64.0**2)

    script.at(onset, load)
    return Truth(onset=onset)


@fault("moments-of-before", on="gru", cause="optimizer_state_stale", is_silent=True)
def moments_of_before(script: Script) -> Truth:
    """Moments of some steps ago are put back, their counters are not."""
    onset = script.some_step(0.5, 0.7)
    kept: list[dict[str, Any]] = []
    script.at(onset - 15, lambda: kept.extend(deepcopy(list(script.optimizer.state.values()))))

    def put_back() -> None:
        for state, old in zip(script.optimizer.state.values(), kept, strict=True):
            state["exp_avg"].copy_(old["exp_avg"])
            state["exp_avg_sq"].copy_(old["exp_avg_sq"])

    script.at(onset, put_back)
    return Truth(onset=onset)


@fault("flipped-moment", on="lm", cause=("silent_data_corruption", "optimizer_state_stale"), is_silent=True)
def flipped_moment(script: Script) -> Truth:
    """A bit flips in the exponent of one second moment, so that its weight stands still from then on."""
    onset, number = script.some_step(), int(script.pick.integers(0, 2))

    def flip() -> None:
        weight = script.model.blocks[number].mlp.up.weight
        script.optimizer.state[weight]["exp_avg_sq"].view(-1)[11] = 2.0**6

    script.at(onset, flip)
    return Truth(sites=(f"blocks.{number}.mlp.up",), onset=onset)


@fault("flipped-weight", on="cnn", cause=("silent_data_corruption", "optimizer_state_stale"), is_silent=True)
def flipped_weight(script: Script) -> Truth:
    """A bit flips in one weight that plain momentum trains."""
    onset = script.some_step()

    def flip() -> None:
        with torch.no_grad():
            script.model.conv2.weight.view(-1)[17] += 4.0

    script.at(onset, flip)
    return Truth(sites=("conv2",), onset=onset)


@fault("detached-generator", on="adversarial", cause="frozen_parameter", is_silent=True)
def detached_generator(script: Script) -> Truth:
    """The generator's points are detached for the judge's step and, by the same line, for its own."""

    def fool(fake: Any) -> Any:
        return functional.binary_cross_entropy_with_logits(script.judge(fake.detach()), torch.ones(len(fake), 1))

    script.fool = fool
    return Truth(sites=("generator",))


@fault(
    "judge-learns-nothing",
    on="adversarial",
    cause=("parameter_not_in_optimizer", "shared_parameter_error"),
    is_silent=True,
)
def judge_learns_nothing(script: Script) -> Truth:
    """Both optimizers were given the generator's parameters: a line that was copied."""
    script.make_optimizer = lambda model: [
        torch.optim.Adam(model["generator"].parameters(), script.rate, betas=(0.5, 0.999)) for _ in range(2)
    ]
    return Truth(sites=("judge", "generator"))


@fault("points-far-away", on="adversarial", cause="unnormalized_input")
def points_far_away(script: Script) -> Truth:
    """The ring is measured in other units: a thousand times as far from the origin as noise is."""
    tensors = script.tensors
    script.tensors = lambda batch: tensors(tuple(1000.0 * one for one in batch))
    return Truth()
