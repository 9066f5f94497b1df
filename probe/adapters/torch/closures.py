"""Closures that optimizers are given: they tell when they have been evaluated for the first time."""

from collections.abc import Callable
from functools import wraps
from typing import Any

#: What an optimizer's `step` is called with, itself the first of them.
Call = tuple[tuple[Any, ...], dict[str, Any]]


def telling(arguments: tuple[Any, ...], options: dict[str, Any], tell: Callable[[], object]) -> Call | None:
    """The same call with a closure that calls `tell` behind its first evaluation; None where it has no closure."""
    closure = arguments[1] if len(arguments) > 1 else options.get("closure")
    if closure is None:
        return None
    told = _told_once(closure, tell)
    if len(arguments) > 1:
        return (arguments[0], told, *arguments[2:]), options
    return arguments, {**options, "closure": told}


def _told_once(closure: Callable[[], Any], tell: Callable[[], object]) -> Callable[[], Any]:
    is_first = True

    @wraps(closure)
    def evaluate() -> Any:
        nonlocal is_first
        loss = closure()
        if is_first:
            is_first = False
            tell()
        return loss

    return evaluate
