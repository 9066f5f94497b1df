"""What a function reads outside of its arguments, found by looking at it: simple values among globals and closures."""

from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

from ..tensor import Parameter, Tensor
from .guards import Guard, closure_guard, is_simple, item_guard
from .traced import CaptureError

__all__ = ["Outside"]


class Outside:
    """The simple values that a function can see, and the functions it names.

    Functions are followed through closures and the globals of the module they share, not into libraries.

    Attributes:
        guards: One for every value.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.guards: list[Guard] = []
        self._home: str | None = getattr(fn, "__module__", None)
        seen: set[int] = set()
        pending: list[Any] = [fn]
        while pending:
            function = _function_of(pending.pop())
            if function is not None and id(function) not in seen:
                seen.add(id(function))
                pending += self._look_into(function)

    def _look_into(self, function: FunctionType) -> Iterator[Any]:
        """The functions that this one names; what it names else is guarded."""
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = _contents(cell)
            yield value
            if is_simple(value) or isinstance(value, Tensor):
                self.guards.append(closure_guard(f"variable '{name}' of {function.__qualname__}", cell, value))
                self.guards += version_guard(name, value)
        space = function.__globals__
        for name in code.co_names:
            if name not in space:
                continue
            value = space[name]
            if getattr(value, "__module__", None) == self._home:
                yield value
            if is_simple(value) or isinstance(value, Tensor) or _function_of(value) is not None:
                self.guards += [item_guard(f"global '{name}'", space, name, value), *version_guard(name, value)]
        yield from (constant for constant in code.co_consts if isinstance(constant, FunctionType))

    def check(self) -> None:
        """Nothing, if none of the values changed while the function was captured.

        Raises:
            CaptureError: One did.
        """
        for guard in self.guards:
            if not guard.holds():
                raise CaptureError(
                    f"{guard.complaint()} after the function was captured: such a change would happen only once; "
                    f"return the new value, or keep it in a Parameter"
                )


def version_guard(name: str, value: Any) -> list[Guard]:
    """A guard on the values of a tensor that would stand in a graph as a constant."""
    if not isinstance(value, Tensor) or value.requires_grad or isinstance(value, Parameter):
        return []
    return [item_guard(f"the count of changes in place of tensor '{name}'", value._version, 0, value._version[0])]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return Outside


def _function_of(value: Any) -> FunctionType | None:
    """The Python function behind a function, a method, a decorated function or a cell of a network; else None."""
    for _ in range(8):
        if isinstance(value, FunctionType):
            return value
        value = value.__func__ if isinstance(value, MethodType) else getattr(value, "__wrapped__", None)
    return None
