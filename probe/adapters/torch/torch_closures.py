"""Optimizers that are called with a closure, or stand behind a wrapper."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from typing import Any

import torch

from ...warning_places import skipped_by_warnings

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


def with_report(arguments: tuple[Any, ...], options: dict[str, Any], report: Callable[[], object]) -> Arguments:
    """Return arguments with a closure that calls `report` after its first evaluation; they have a closure."""
    closure = closure_of(arguments, options)
    assert closure is not None, "asked for where there is a closure"
    reporting = _reporting_once(closure, report)
    if len(arguments) > 1:
        return (arguments[0], reporting, *arguments[2:]), options
    return arguments, {**options, "closure": reporting}


def _reporting_once(closure: Callable[[], Any], report: Callable[[], object]) -> Callable[[], Any]:
    is_first = True

    @wraps(closure)
    @skipped_by_warnings
    def evaluate(*arguments: Any, **options: Any) -> Any:
        nonlocal is_first
        loss = closure(*arguments, **options)
        if is_first:
            is_first = False
            report()
        return loss

    return evaluate


def without_wrapper(optimizer: Any) -> Any:
    """Return the optimizer that steps: inside of the one that Hugging Face's Accelerate, for one, puts around it."""
    inner = getattr(optimizer, "optimizer", None)
    return without_wrapper(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer
