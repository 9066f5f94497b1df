"""What a call of a cell goes through: its hooks, its own gradient, and its compute precision.

A gate is the identity of several tensors as one operation, so that hooks see their gradients together. A call with
backward hooks is fenced by two of them:

    inputs -> [ gate ] -> construct -> [ gate ] -> outputs
                  |                        |
           backward hooks            backward-pre hooks
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Protocol, TypeVar

import numpy.typing as npt

from ..context import CAPTURE, is_recording
from ..dtype import Dtype, as_dtype, is_floating
from ..errors import DtypeError, GradientError
from ..hooks import Hooks
from ..ops.observe import show as show_operation
from ..primitive import Primitive
from ..specs import Spec
from ..tensor import Array, Parameter, Tensor
from ..transforms.custom_vjp import call_with_rule

__all__ = ["with_bprop"]

#: One gradient per tensor, None where none arrived or none is needed.
Grads = tuple[Tensor | None, ...]

#: The positional arguments of a cell.
Arguments = tuple[object, ...]

_Output = TypeVar("_Output")


class CalledCell(Protocol):
    """What a call uses of a `Cell`."""

    _kept_wide: ClassVar[tuple[str, ...]]
    _parameters: dict[str, Parameter]

    def construct(self, *inputs: Any, **options: Any) -> Any:  # every cell states its own arguments
        """Return the outputs."""

    def _call_construct(self, inputs: Arguments, options: dict[str, object]) -> Any:
        """Return the outputs, past hooks and precision."""


class CellHooks:
    """The four kinds of hooks of one cell; cells make it with their first hook."""

    __slots__ = ("backward", "backward_pre", "forward", "forward_pre")

    def __init__(self) -> None:
        self.forward_pre: Hooks = {}
        self.forward: Hooks = {}
        self.backward_pre: Hooks = {}
        self.backward: Hooks = {}

    def run(self, cell: CalledCell, inputs: Arguments, options: Mapping[str, object]) -> Any:
        """Return the cell's output, every hook having had its turn."""
        if not (self.forward_pre or self.forward or self.backward_pre or self.backward):
            return cell.construct(*inputs, **options)  # they were all removed
        for hook in _present(self.forward_pre):
            changed = hook(cell, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        call = Gates(cell, self) if self.backward or self.backward_pre else None
        if call is None:
            output = cell.construct(*inputs, **options)
        else:
            output = call.leave(cell.construct(*call.enter(inputs), **options))
        for hook in _present(self.forward):
            changed = hook(cell, inputs, output)
            if changed is not None:
                output = changed
        return output


class Gates:
    """One call of a cell, from its inputs to the gradients of its inputs; compiled functions keep it for every call."""

    __slots__ = ("_cell", "_grad_output", "_hooks", "_inputs", "_watches_inputs")

    def __init__(self, cell: CalledCell, hooks: CellHooks) -> None:
        self._cell, self._hooks = cell, hooks
        self._grad_output: Grads = ()
        self._inputs = 0
        self._watches_inputs = False

    def enter(self, inputs: Arguments) -> Arguments:
        """Return the inputs behind a gate, where one of them leads anywhere."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        self._inputs = len(tensors)
        gated = _gate(tensors, self._backward)
        self._watches_inputs = any(x.requires_grad for x in gated)
        rest = iter(gated)
        return tuple(next(rest) if isinstance(x, Tensor) else x for x in inputs)

    def leave(self, output: object) -> object:
        """Return the output behind a gate: a tensor, or a tuple or list with tensors."""
        if isinstance(output, Tensor):
            return _gate([output], self._backward_pre)[0]
        if not isinstance(output, tuple | list):
            return output
        rest = iter(_gate([x for x in output if isinstance(x, Tensor)], self._backward_pre))
        changed = [next(rest) if isinstance(x, Tensor) else x for x in output]
        if isinstance(output, list):
            return changed
        return type(output)(*changed) if hasattr(output, "_fields") else tuple(changed)

    def _backward_pre(self, grads: Grads) -> Grads:
        for hook in _present(self._hooks.backward_pre):
            grads = _replaced(hook(self._cell, grads), grads, "grad_output")
        self._grad_output = grads
        if not self._watches_inputs:
            self._backward((None,) * self._inputs)
        return grads

    def _backward(self, grads: Grads) -> Grads:
        for hook in _present(self._hooks.backward):
            grads = _replaced(hook(self._cell, grads, self._grad_output), grads, "grad_input")
        return grads


def _present(hooks: Hooks) -> Iterator[Callable[..., Any]]:
    """Return the hooks in order of registration; one that is removed meanwhile is not called any more."""
    for number in tuple(hooks):
        hook = hooks.get(number)
        if hook is not None:
            yield hook


def _replaced(changed: Tensor | Grads | list[Tensor | None] | None, grads: Grads, what: str) -> Grads:
    if changed is None:
        return grads
    given: Grads = tuple(changed) if isinstance(changed, tuple | list) else (changed,)
    if len(given) != len(grads):
        raise ValueError(f"a backward hook returned {len(given)} gradients for {what}; expected {len(grads)} or None")
    return given


def _gate(tensors: Sequence[Tensor], show: Callable[[Grads], Grads]) -> list[Tensor]:
    """Return the tensors, those that require a gradient behind one gate; `show` gets and returns a gradient for all."""
    gated = list(tensors)
    places = [place for place, x in enumerate(tensors) if x.requires_grad]
    if not places:
        return gated

    show_all = _among(places, len(gated), show)
    passing = [tensors[place] for place in places]
    passed = gate.several(*passing, show=show_all) if len(passing) > 1 else (gate(*passing, show=show_all),)
    for place, x in zip(places, passed, strict=True):
        gated[place] = x
    return gated


def _among(places: Sequence[int], count: int, show: Callable[[Grads], Grads]) -> Callable[[Grads], Grads]:
    """`show` for those who have the gradients at these places only, of `count`; None stands at the others."""

    def show_those(grads: Grads) -> Grads:
        every: list[Tensor | None] = [None] * count
        for place, grad in zip(places, grads, strict=True):
            every[place] = grad
        shown = show(tuple(every))
        return tuple(shown[place] for place in places)

    return show_those


def _evaluate(*arrays: Array, show: object) -> Array | tuple[Array, ...]:
    del show
    return arrays if len(arrays) > 1 else arrays[0]


def _infer(*specs: Spec, show: object) -> Spec | tuple[Spec, ...]:
    del show
    return specs if len(specs) > 1 else specs[0]


def _vjp(needs: Sequence[bool], g: Any, out: object, *inputs: object, show: Callable[[Grads], Grads]) -> Grads:
    del out
    grads: Grads = tuple(g) if len(inputs) > 1 else (g,)
    shown: Grads = show(grads) if CAPTURE.get() is None else _show_later(grads, show)
    return tuple(grad if need else None for grad, need in zip(shown, needs, strict=True))


def _show_later(grads: Grads, show: Callable[[Grads], Grads]) -> Grads:
    """Return what the hooks will return when the graph that is being captured runs."""
    there = [place for place, grad in enumerate(grads) if grad is not None]
    passing = [grads[place] for place in there]
    passed: Any = show_operation(*passing, hook=_among(there, len(grads), show))  # a tuple where there are several
    rest = iter(passed if isinstance(passed, tuple) else (passed,))
    return tuple(None if grad is None else next(rest) for grad in grads)


#: The identity of its tensors; `show` sees their gradients, together, and returns those that go on.
gate = Primitive("gate", _evaluate, _infer, _vjp)


def with_bprop(construct: Callable[..., _Output]) -> Callable[..., _Output]:
    """Return the `construct` of a cell class, whose gradient is what the cell's `bprop` returns.

    `bprop` takes the inputs, the output and the gradient of the output, and returns a gradient for each input. The cell
    may have no trained parameters: they would get none.
    """

    @wraps(construct)
    def constructed(self: Any, *inputs: object, **options: object) -> _Output:
        if is_recording():
            for name, parameter in self.parameters_and_names():
                if parameter.requires_grad:
                    raise GradientError(
                        f"bprop of {type(self).__name__} gives gradients to inputs only, but the cell has a trained "
                        f"parameter '{name}'; pass it as an input, or set its requires_grad to False"
                    )

        def forward(*given: object) -> tuple[object, object]:
            output = construct(self, *given, **options)
            return output, (given, output)

        def backward(residuals: Any, gradient: object) -> Sequence[Tensor | None]:
            given, output = residuals
            found = self.bprop(*given, output, gradient)
            return found if isinstance(found, tuple | list) else (found,)

        return call_with_rule(lambda *given: construct(self, *given, **options), forward, backward, inputs, {})

    return constructed


class CellPrecision:
    """A cell's inputs and parameters are cast before it runs, its outputs afterwards.

    The parameters themselves stay as they are: the cast is an operation like others, through which their gradients
    come back in their own dtype. While a cell runs, its attributes are the cast ones; two threads must not run one
    cell at the same time.

    Args:
        compute: The floating-point dtype that the cell computes in.
        output: That of its outputs; as computed by default.
    """

    __slots__ = ("compute", "output")

    def __init__(self, compute: npt.DTypeLike, output: npt.DTypeLike | None = None) -> None:
        self.compute = _floating(compute)
        self.output = None if output is None else _floating(output)

    def run(self, cell: CalledCell, inputs: Arguments, options: Mapping[str, object]) -> Any:
        """Return what the cell gives for inputs so cast."""
        wide = cell._kept_wide
        changed = {
            name: parameter
            for name, parameter in cell._parameters.items()
            if name not in wide and is_floating(parameter.dtype) and parameter.dtype != self.compute
        }
        fields = cell.__dict__
        try:
            for name, parameter in changed.items():
                fields[name] = parameter.astype(self.compute)
            output = cell._call_construct(
                tuple(_cast(x, self.compute) for x in inputs), {k: _cast(x, self.compute) for k, x in options.items()}
            )
        finally:
            fields.update(changed)
        return output if self.output is None else _cast(output, self.output)

    def __repr__(self) -> str:
        return f"Precision({self.compute}{'' if self.output is None else f', {self.output}'})"


def _cast(value: object, dtype: Dtype) -> Any:
    """Return the value with its floating-point tensors in that dtype; tuples and lists part by part."""
    if isinstance(value, Tensor):
        return value.astype(dtype) if is_floating(value.dtype) and value.dtype != dtype else value
    if isinstance(value, tuple | list):
        parts = [_cast(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _floating(dtype: npt.DTypeLike) -> Dtype:
    found = as_dtype(dtype)
    if not is_floating(found):
        raise DtypeError(f"a cell computes in a floating-point dtype, got {found}; use float16, bfloat16 or float32")
    return found
