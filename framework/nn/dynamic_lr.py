"""Lists of learning rates, one for each step, under MindSpore's names; an optimizer takes such a list as its rate.

These change from epoch to epoch: the step counts as the epoch it lies in.
"""

from collections.abc import Callable, Sequence
from math import cos, exp, pi

from ..optim.schedule_checks import check_counts, check_rates


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """Half a cosine from `max_lr` down to `min_lr` at `decay_epoch`, then `min_lr`."""
    check_rates(cosine_decay_lr, min_lr, max_lr)
    return _by_epoch(
        lambda epoch: min_lr + 0.5 * (max_lr - min_lr) * (1.0 + cos(pi * min(epoch, decay_epoch) / decay_epoch)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def exponential_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`learning_rate * decay_rate ** (epoch / decay_epoch)`, the exponent rounded down when `is_stair`."""
    check_rates(exponential_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate * decay_rate ** _periods(epoch, decay_epoch, is_stair),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def inverse_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`learning_rate / (1 + decay_rate * epoch / decay_epoch)`, the quotient rounded down when `is_stair`."""
    check_rates(inverse_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate / (1.0 + decay_rate * _periods(epoch, decay_epoch, is_stair)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def natural_exp_decay_lr(
    learning_rate: float,
    decay_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:
    """`learning_rate * exp(-decay_rate * epoch)`, the epoch rounded down to `decay_epoch` when `is_stair`."""
    check_rates(natural_exp_decay_lr, learning_rate, decay_rate)
    return _by_epoch(
        lambda epoch: learning_rate * exp(-decay_rate * (epoch // decay_epoch * decay_epoch if is_stair else epoch)),
        total_step,
        step_per_epoch,
        decay_epoch,
    )


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """`learning_rates[k]` up to, not including, step `milestone[k]`; the list ends with the last milestone."""
    check_rates(piecewise_constant_lr, *learning_rates)
    if not milestone or len(milestone) != len(learning_rates):
        raise ValueError(
            f"piecewise_constant_lr expects as many milestones as rates, one or more, "
            f"got {len(milestone)} and {len(learning_rates)}"
        )
    if any(b <= a for a, b in zip((0, *milestone), milestone, strict=False)):
        raise ValueError(f"piecewise_constant_lr expects rising milestones above 0, got {tuple(milestone)}; sort them")
    rates: list[float] = []
    for end, rate in zip(milestone, learning_rates, strict=True):
        rates.extend([float(rate)] * (end - len(rates)))
    return rates


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """`(learning_rate - end_learning_rate) * (1 - done) ** power + end_learning_rate`, done at `decay_epoch`.

    With `update_decay_epoch` the decay starts again over twice, three times, ... the epochs when it is done.
    """
    check_rates(polynomial_decay_lr, learning_rate, end_learning_rate, power)

    def rate(epoch: int) -> float:
        epochs = decay_epoch * max(1, -(-epoch // decay_epoch)) if update_decay_epoch else decay_epoch
        left = 1.0 - min(epoch, epochs) / epochs
        return float((learning_rate - end_learning_rate) * left**power + end_learning_rate)

    return _by_epoch(rate, total_step, step_per_epoch, decay_epoch)


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """`learning_rate * epoch / warmup_epoch`, then `learning_rate`; without warm-up epochs it does not change."""
    check_rates(warmup_lr, learning_rate)
    check_counts(warmup_lr, 0, warmup_epoch=warmup_epoch)
    epochs = max(1, warmup_epoch)
    return _by_epoch(
        lambda epoch: learning_rate * (min(epoch, epochs) / epochs if warmup_epoch else 1.0),
        total_step,
        step_per_epoch,
        epochs,
    )


def _by_epoch(rate: Callable[[int], float], total_step: int, step_per_epoch: int, epochs: int) -> list[float]:
    check_counts(rate, 1, total_step=total_step, step_per_epoch=step_per_epoch, epochs=epochs)
    return [float(rate(step // step_per_epoch)) for step in range(total_step)]


def _periods(epoch: int, decay_epoch: int, is_stair: bool) -> float:
    return epoch // decay_epoch if is_stair else epoch / decay_epoch
