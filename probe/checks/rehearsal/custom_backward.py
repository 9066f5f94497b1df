"""Is the backward of a program's own autograd function the derivative of its forward?"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch

from ...aside import aside, same_random_numbers
from ...warning_places import without_warnings
from ..check_result import CheckResult, broken, held, undecided
from .step_tape import CustomCall

DERIVATIVE: Final = "backward_is_the_derivative"
_CLAIM: Final = "the backward of {name} is the derivative of its forward"
#: Step of the central difference in float64, and its error. Our choice.
_STEP, _ERROR = 1e-6, 1e-3


def backward_is_the_derivative(call: CustomCall) -> CheckResult | None:
    """Compare the backward with central differences in float64, along a random direction of each input.

    Returns:
        None for a function that is not meant to be differentiated so: one that returns its input (a reversal or a
        scale of gradients), or whose backward differs where its forward is flat only (rounding, signs, clamps).
    """
    name = call.function.__name__
    claim = _CLAIM.format(name=name)
    try:
        with aside(), without_warnings(), same_random_numbers(0), torch.enable_grad():
            return _compared(call, name, claim)
    except Exception as error:  # noqa: BLE001  a check that fails stays open
        return undecided(DERIVATIVE, claim, f"{type(error).__name__}: {error}", subject=name)


def _compared(call: CustomCall, name: str, claim: str) -> CheckResult | None:
    given = [_doubled(argument) for argument in call.arguments]
    has_compared = False
    for at, value in enumerate(given):
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        slopes = _slopes(call, given, at)
        if slopes is None:
            continue
        told, difference, is_meant = slopes
        if is_meant:
            return None
        has_compared = True
        if abs(told - difference) > _ERROR * max(abs(difference), abs(told)):
            words = (
                f"along a random direction of input {at} of {name}, its backward gives a derivative of {told:.6g}, and "
                f"differences of its forward {difference:.6g}"
            )
            return broken(DERIVATIVE, claim, words, subject=name, backward=told, difference=difference)
    return held(DERIVATIVE, claim, subject=name) if has_compared else None


def _slopes(call: CustomCall, given: Sequence[Any], at: int) -> tuple[float, float, bool] | None:
    """Return the derivative by backward and by differences, and whether they may differ; None if there is none."""
    value = given[at].clone().requires_grad_()

    def output(of: torch.Tensor) -> torch.Tensor | None:
        made = call.function.apply(*given[:at], of, *given[at + 1 :])
        first = made[0] if isinstance(made, tuple) else made
        return first if isinstance(first, torch.Tensor) and first.dtype == torch.float64 else None

    here = output(value)
    if here is None or not here.requires_grad:
        return None
    weights, direction = torch.randn_like(here), torch.randn_like(value)
    (slope,) = torch.autograd.grad((here * weights).sum(), value, allow_unused=True)
    slope = torch.zeros_like(value) if slope is None else slope
    high, low = output(value.detach() + _STEP * direction), output(value.detach() - _STEP * direction)
    if high is None or low is None:
        return None
    moved = (high - low).detach() / (2 * _STEP)
    is_meant = not bool(moved.any())
    if here.shape == value.shape:
        pointwise = slope * direction / torch.where(weights == 0, 1.0, weights)
        differs = (pointwise - moved).abs() > _ERROR * (1.0 + moved.abs())
        is_copy = torch.equal(here.detach(), value.detach())
        is_meant |= is_copy or (bool(differs.any()) and not bool(moved[differs].any()))
    return float((slope * direction).sum()), float((moved * weights).sum()), is_meant


def _doubled(argument: Any) -> Any:
    if not isinstance(argument, torch.Tensor) or not argument.is_floating_point():
        return argument
    return argument.detach().double()


def results_of(calls: Iterable[CustomCall]) -> Iterator[CheckResult]:
    """Yield the result for each function."""
    for call in calls:
        result = backward_is_the_derivative(call)
        if result is not None:
            yield result
