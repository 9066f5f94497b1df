"""The hooks of a cell, and the gates that let them see gradients.

A gate is the identity of several tensors as one operation, so that their gradients come by together. A call with
backward hooks is fenced by two of them:

    inputs -> [ gate ] -> construct -> [ gate ] -> outputs
                  |                        |
           backward hooks            backward-pre hooks
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..context import CAPTURE
from ..hooks import Hooks
from ..ops.observe import show as show_operation
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor

if TYPE_CHECKING:
    from .cell import Cell

#: One gradient per tensor, None where none arrived or none is needed.
Grads = tuple[Tensor | None, ...]


class CellHooks:
    """The four kinds of hooks of one cell; cells make it with their first hook."""

    __slots__ = ("backward", "backward_pre", "forward", "forward_pre")

    def __init__(self) -> None:
        self.forward_pre: Hooks = {}
        self.forward: Hooks = {}
        self.backward_pre: Hooks = {}
        self.backward: Hooks = {}

    def run(self, cell: "Cell", inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The cell's output, every hook having had its turn."""
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

    def __init__(self, cell: "Cell", hooks: CellHooks) -> None:
        self._cell, self._hooks = cell, hooks
        self._grad_output: Grads = ()
        self._inputs = 0
        self._watches_inputs = False

    def enter(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs behind a gate, where one of them leads anywhere."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        self._inputs = len(tensors)
        gated = _gate(tensors, self._backward)
        self._watches_inputs = any(x.requires_grad for x in gated)
        rest = iter(gated)
        return tuple(next(rest) if isinstance(x, Tensor) else x for x in inputs)

    def leave(self, output: Any) -> Any:
        """The output behind a gate: a tensor, or a tuple or list with tensors."""
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


def _present(hooks: Hooks) -> Any:
    """The hooks in order of registration; one that is removed meanwhile is not called any more."""
    for number in tuple(hooks):
        hook = hooks.get(number)
        if hook is not None:
            yield hook


def _replaced(changed: Any, grads: Grads, what: str) -> Grads:
    if changed is None:
        return grads
    given: Grads = tuple(changed) if isinstance(changed, tuple | list) else (changed,)
    if len(given) != len(grads):
        raise ValueError(f"a backward hook returned {len(given)} gradients for {what}; expected {len(grads)} or None")
    return given


def _gate(tensors: Sequence[Tensor], show: Callable[[Grads], Grads]) -> list[Tensor]:
    """The tensors, those that require a gradient behind one gate; `show` gets and returns a gradient for all."""
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


def _evaluate(*arrays: Array, show: Any) -> Any:
    del show
    return arrays if len(arrays) > 1 else arrays[0]


def _infer(*specs: Spec, show: Any) -> Any:
    del show
    return specs if len(specs) > 1 else specs[0]


def _vjp(needs: Sequence[bool], g: Any, out: Any, *inputs: Any, show: Any) -> Grads:
    del out
    grads: Grads = tuple(g) if len(inputs) > 1 else (g,)
    shown: Grads = show(grads) if CAPTURE.get() is None else _show_later(grads, show)
    return tuple(grad if need else None for grad, need in zip(shown, needs, strict=True))


def _show_later(grads: Grads, show: Callable[[Grads], Grads]) -> Grads:
    """What the hooks will return when the graph that is being captured runs."""
    there = [place for place, grad in enumerate(grads) if grad is not None]
    passing = [grads[place] for place in there]
    passed: Any = show_operation(*passing, hook=_among(there, len(grads), show))  # a tuple where there are several
    rest = iter(passed if isinstance(passed, tuple) else (passed,))
    return tuple(None if grad is None else next(rest) for grad in grads)


#: The identity of its tensors; `show` sees their gradients, together, and returns those that go on.
gate = Primitive("gate", _evaluate, _infer, _vjp)
