"""Learning rates: too high, too low, without warm-up, on a wrong schedule."""

import torch

from ..script import Script
from ..table import Truth, fault


@fault("rate-too-high", on="mlp", cause="learning_rate_too_high")
def rate_too_high(script: Script) -> Truth:
    """AdamW at a rate that belongs to plain gradient descent."""
    script.rate = 0.3
    return Truth()


@fault("rate-jump", on="cnn", cause=("learning_rate_too_high", "schedule_error"))
def rate_jump(script: Script) -> Truth:
    """In the middle of the run someone multiplies the rate by a hundred instead of dividing it."""
    onset = script.some_step()

    def jump() -> None:
        script.schedule.base_lrs = [rate * 100.0 for rate in script.schedule.base_lrs]
        for group in script.optimizer.param_groups:
            group["lr"] *= 100.0

    script.at(onset, jump)
    return Truth(onset=onset)


@fault("engine-rate-jump", on="engine-lm", cause=("learning_rate_too_high", "schedule_error"))
def engine_rate_jump(script: Script) -> Truth:
    """From one step on the rate is three hundred times what it was, a slip in a list of milestones."""
    onset = script.some_step()

    def jump() -> None:
        for group in script.optimizer.param_groups:
            group["lr"] *= 300.0

    script.at(onset, jump)
    return Truth(onset=onset)


@fault("engine-rate-too-low", on="engine-mlp", cause="learning_rate_too_low")
def engine_rate_too_low(script: Script) -> Truth:
    """A rate in the wrong unit: nothing moves."""
    script.rate = 1e-9
    return Truth()


@fault("rate-too-low", on="gru", cause="learning_rate_too_low")
def rate_too_low(script: Script) -> Truth:
    """1e-8 where 1e-3 was meant."""
    script.rate = 1e-8
    return Truth()


@fault("no-warm-up", on="lm", cause=("missing_warmup", "learning_rate_too_high"))
def no_warm_up(script: Script) -> Truth:
    """The schedule begins at its top, and the top is what a warmed up model bears."""
    script.warm_up, script.rate = 0, 0.06
    return Truth()


@fault("schedule-twice", on="lm", cause="schedule_error", is_silent=True)
def schedule_twice(script: Script) -> Truth:
    """The callback steps the schedule after every batch, and the loop does so once more every second batch."""
    advance = script.advance

    def both() -> None:
        advance()
        if script.step % 2:
            script.schedule.step()

    script.advance = both
    return Truth()


@fault("schedule-too-short", on="cnn", cause="schedule_error", is_silent=True)
def schedule_too_short(script: Script) -> Truth:
    """The schedule counts epochs and is stepped every batch: the rate is gone before the run has begun."""

    def short(optimizer: torch.optim.Optimizer) -> object:
        return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=8)

    script.make_schedule = short
    return Truth(onset=8)


@fault("schedule-restarts", on="gru", cause="schedule_error", is_silent=True)
def schedule_restarts(script: Script) -> Truth:
    """The schedule is made anew in every epoch inside the loop, so the rate jumps back in mid-curve."""

    def decaying(optimizer: torch.optim.Optimizer) -> object:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - 0.7 * step / script.steps)

    def again() -> None:
        for group in script.optimizer.param_groups:
            group["lr"] = script.rate
        script.schedule = decaying(script.optimizer)

    script.make_schedule = decaying
    script.at(30, again)
    return Truth(onset=30)


@fault("negative-rate", on="mlp", cause=("schedule_error", "wrong_loss_sign"))
def negative_rate(script: Script) -> Truth:
    """A polynomial schedule runs past its end, and the rate becomes negative."""
    last = script.some_step()

    def set_rate() -> None:
        for group in script.optimizer.param_groups:
            group["lr"] = 1e-3 * (1.0 - script.step / last)

    for step in range(script.steps):
        script.at(step, set_rate)
    return Truth(onset=last + 1)
