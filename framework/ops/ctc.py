"""The loss of connectionist temporal classification: all alignments of a label sequence with a longer input."""

import math

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, wrap
from .arithmetic import add, divide, maximum, negative
from .choose import where
from .compare import equal, logical_and, not_equal
from .create import full
from .elements import gather_elements
from .indexing import narrow
from .join import concat, stack
from .loss_reduction import Reduction, reduced
from .operands import as_real, as_tensor, cast_to
from .reduce import broadcast_to
from .special import logaddexp


def _moved(alpha: Tensor, by: int) -> Tensor:
    """Every state's value at the state `by` places later; minus infinity comes in."""
    if by >= alpha.shape[1]:
        return full(alpha.shape, -math.inf, alpha.dtype)
    nothing = full((alpha.shape[0], by), -math.inf, alpha.dtype)
    return concat([nothing, narrow(alpha, 1, 0, alpha.shape[1] - by)], 1)


def ctc_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """The negative logarithm of the probability of label sequences, summed over all their alignments.

    Made of basic primitives, a few for each step, so that derivatives of any order exist.

    Args:
        log_probabilities: `(steps, batch, classes)`.
        targets: `(batch, labels)`, integers; what lies behind a sequence's length is ignored.
        input_lengths: `(batch)`.
        target_lengths: `(batch)`.
        blank: The class that stands for no label.
        zero_infinity: Count sequences that cannot be aligned as 0 instead of infinity.
        reduction: Over the batch; the mean is of each loss divided by its number of labels (1 for none).

    Reference:
        Graves et al. 2006, "Connectionist temporal classification", eqs. 5-8.
    """
    log_p, targets = as_real(log_probabilities, "ctc_loss"), as_tensor(targets)
    inputs, lengths = as_tensor(input_lengths), as_tensor(target_lengths)
    if log_p.ndim != 3 or targets.ndim != 2 or targets.shape[0] != log_p.shape[1]:
        raise ShapeError(
            f"ctc_loss expects log-probabilities (steps, batch, classes) and targets (batch, labels), "
            f"got {log_p.shape} and {targets.shape}"
        )
    steps, batch, _ = log_p.shape
    blanks = full(targets.shape, blank, targets.dtype)
    first = full((batch, 1), blank, targets.dtype)
    states = concat([stack([blanks, targets], 2).reshape(batch, -1), first], 1)
    count = states.shape[1]
    emitted = gather_elements(log_p, broadcast_to(states.reshape(1, batch, count), (steps, batch, count)), 2)
    jumps = logical_and(not_equal(states, blank), not_equal(states, concat([first, first, states], 1)[:, :count]))
    start = wrap(np.arange(count).reshape(1, -1) < 2)
    alpha = where(start, emitted[0], -math.inf)
    for step in range(1, steps):
        stay = logaddexp(alpha, _moved(alpha, 1))
        reached = add(logaddexp(stay, where(jumps, _moved(alpha, 2), -math.inf)), emitted[step])
        alpha = where((inputs > step).reshape(-1, 1), reached, alpha)
    losses = _read(alpha, lengths)
    if zero_infinity:
        losses = where(equal(losses, math.inf), 0.0, losses)
    if reduction == "mean":
        losses = divide(losses, cast_to(maximum(lengths, 1), losses.dtype))
    return reduced(losses, reduction)


def _read(alpha: Tensor, lengths: Tensor) -> Tensor:
    """Minus the logarithm of the probability to end in the last label or in the blank behind it."""
    place = lengths.reshape(-1, 1) * 2
    end = gather_elements(alpha, place, 1)
    before = where(place > 0, gather_elements(alpha, maximum(place - 1, 0), 1), -math.inf)
    return negative(logaddexp(end, before)).reshape(-1)
