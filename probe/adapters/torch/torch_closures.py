"""Optimizers that are called with a closure, or stand behind a wrapper."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from typing import Any, Final

import torch

from ...warning_places import skipped_by_warnings

#: Evaluations in one step from which on the search is the training itself. Our choice: LBFGS makes 20 iterations in a
#: step, with 25 evaluations at most, unless it is told to make more.
_LONG_SEARCH: Final = 64
#: What an optimizer's `step` is called with, itself the first of them.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def closure_of(arguments: Sequence[Any], options: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return the closure that an optimizer's `step` is called with; None if it has none.

    An optimizer of others may take something else first, such as a direction or the model, which stays as it is.
    """
    given = arguments[1] if len(arguments) > 1 else options.get("closure")
    is_first = len(arguments) > 1
    return given if callable(given) and not (is_first and not _takes_closure(type(arguments[0]).step)) else None


@cache
def _takes_closure(step: Callable[..., Any]) -> bool:
    """Return whether the first parameter of the `step` of an optimizer's class is a closure, as its name says."""
    try:
        _, first, *_ = signature(step).parameters
    except (TypeError, ValueError):  # of a step that has no signature, or no parameters
        return False
    return "closure" in first


def with_reports(
    arguments: tuple[Any, ...], options: dict[str, Any], report: Callable[[], object], goes_on: Callable[[], object]
) -> Arguments:
    """Return arguments with a closure that tells of its evaluations; they have a closure.

    Args:
        report: Called after the first evaluation, and after each one of a long search.
        goes_on: Called before each further evaluation of a long search.
    """
    closure = closure_of(arguments, options)
    assert closure is not None, "asked for where there is a closure"
    reporting = _reporting(closure, report, goes_on)
    if len(arguments) > 1:
        return (arguments[0], reporting, *arguments[2:]), options
    return arguments, {**options, "closure": reporting}


def _reporting(
    closure: Callable[..., Any], report: Callable[[], object], goes_on: Callable[[], object]
) -> Callable[..., Any]:
    evaluated = 0

    @wraps(closure)
    @skipped_by_warnings
    def evaluate(*arguments: Any, **options: Any) -> Any:
        nonlocal evaluated
        evaluated += 1
        if evaluated > _LONG_SEARCH:
            goes_on()
        loss = closure(*arguments, **options)
        if evaluated == 1 or evaluated > _LONG_SEARCH:
            report()
        return loss

    return evaluate


def without_wrapper(optimizer: Any) -> Any:
    """Return the optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer
