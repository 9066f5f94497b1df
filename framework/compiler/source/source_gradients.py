"""`grad` and `value_and_grad` inside captured code.

Where the inner function computes straight on, the tape goes back through the traced tensors, hooks and all. It cannot
go through control flow that only happens when the graph runs; `compiler.grad` can: then the inner function becomes a
graph, and its gradient is a graph. What it changes on its way (running statistics, counters) leaves beside the result.
"""

from typing import Any

from ...dtype import is_inexact
from ...errors import GradientError
from ...ir import Apply, ConstantNode, Graph, Node, ParameterNode, TupleType
from ...ir.clone import clone
from ...ir.control_ops import make_tuple, tuple_getitem
from ...ir.visit import free_variables
from ...tape import BACKWARD_START, apply_hooks, notify_backward_start_from
from ...tensor import Tensor
from ...transforms.autodiff import Differentiated, grad, inside_transform, value_and_grad
from ..graph_gradient import grad_graph
from ..traced import CaptureError, TracedTensor
from .frames import Interpreter, special
from .graph_effects import BarrierMet
from .paths import PathChanges, Slot, changed_slots, read, write
from .traced_numbers import TracedNumber, Value
from .value_plans import Plan, extract, freeze, rebuild, types_of, unify

__all__ = ["differentiated_call"]


def differentiated_call(
    interpreter: Interpreter, record: Differentiated, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return what a function made by `grad` or `value_and_grad` returns."""
    interpreter.outside.meet(getattr(record.fn, "__self__", record.fn), "fn")
    found = _by_tape(interpreter, record, arguments, options)
    return _by_graph(interpreter, record, arguments, options) if found is None else found


def _by_tape(
    interpreter: Interpreter, record: Differentiated, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return what the function returns, by the tape; None where that cannot go back, everything as it was."""
    capture = interpreter.capture
    barriers = capture.barriers
    make = value_and_grad if record.has_value else grad
    function = make(interpreter.bridge(record.fn), record.grad_position, record.weights, record.has_aux)
    try:
        with capture.attempt():
            capture.heap.push()
            result = function(*arguments, **options)
            if capture.barriers == barriers:
                capture.heap.keep()
                return result
            capture.heap.discard(len(capture.heap.layers) - 1)
    except BarrierMet:
        pass
    return None


@special(Tensor.register_hook)
def register_hook(interpreter: Interpreter, arguments: tuple[Any, ...], options: dict[str, Any]) -> Value:
    """Return a hook on the gradient of a tensor; only the tape has gradients of tensors on the way."""
    if interpreter.capture.differentiating:
        raise CaptureError(
            "a hook on a tensor inside a function that is differentiated through control flow over tensors has no "
            "place in its graph; register the hook on a cell, or outside of the control flow"
        )
    return Tensor.register_hook(*arguments, **options)


def _by_graph(
    interpreter: Interpreter, record: Differentiated, arguments: tuple[Any, ...], options: dict[str, Value]
) -> Value:
    position, weights = record.grad_position, record.weights
    positions = (position,) if isinstance(position, int) else tuple(position or ())
    parameters = (weights,) if isinstance(weights, Tensor) else tuple(weights or ())
    _check(arguments, positions)
    inner = _Inner(interpreter, record, [arguments[p] for p in positions], list(parameters))
    output, found = inner.call(arguments, options, positions)
    of_inputs: Any = tuple(found[: len(positions)])
    of_weights: Any = tuple(found[len(positions) :])
    if isinstance(position, int):
        of_inputs = of_inputs[0]
    if isinstance(weights, Tensor):
        of_weights = of_weights[0]
    gradients = of_inputs if weights is None else of_weights if position is None else (of_inputs, of_weights)
    if record.has_value:
        return output, gradients
    return (gradients, tuple(output[1:])) if record.has_aux else gradients


def _check(arguments: tuple[Value, ...], positions: tuple[int, ...]) -> None:
    for position in positions:
        if not -len(arguments) <= position < len(arguments):
            raise GradientError(f"grad_position {position} names no argument: the call has {len(arguments)}")
        x = arguments[position]
        if not isinstance(x, Tensor) or isinstance(x, TracedNumber) or not is_inexact(x.dtype):
            kind = str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
            raise GradientError(
                f"a gradient can be taken by a floating-point Tensor, got {kind}; wrap or cast it first"
            )


class _Inner:
    """The function that is differentiated, as a graph of the tensors that it is differentiated by.

    Args:
        interpreter: What runs it.
        record: What is to be done.
        inputs: Its arguments that are differentiated by.
        weights: Its weights that are.
    """

    def __init__(
        self, interpreter: Interpreter, record: Differentiated, inputs: list[Value], weights: list[Tensor]
    ) -> None:
        self.interpreter, self.record, self.weights = interpreter, record, weights
        self.capture = interpreter.capture
        self.given = [self.capture.node_of(x) for x in (*inputs, *weights)]
        self.graph = self.capture.new_graph("loss", self.capture.graph)
        self.parameters = [self.graph.add_parameter(node.type) for node in self.given]

    def call(
        self, arguments: tuple[Value, ...], options: dict[str, Value], positions: tuple[int, ...]
    ) -> tuple[Any, list[Value]]:
        """Return what the function returns, and the gradients."""
        capture, outer = self.capture, self.capture.graph
        with capture.attempt():
            capture.heap.push()
            capture.graph = self.graph
            inputs = list(arguments)
            for position, parameter in zip(positions, self.parameters, strict=False):
                inputs[position] = TracedTensor(parameter)
            capture.heap.touch(capture.held)
            for weight, parameter in zip(self.weights, self.parameters[len(positions) :], strict=True):
                capture.held[id(weight)] = TracedTensor(parameter)
            capture.differentiating += 1
            with inside_transform():
                output = self.interpreter.call(self.record.fn, tuple(inputs), options)
            capture.differentiating -= 1
            loss = self._loss(output)
            slots, plans, nodes = self._results(output, outer)
            self.graph.output = capture.graph.apply(make_tuple, loss, *nodes, where=capture.where())
            capture.graph = outer
            capture.heap.suspend()
        return self._outside(slots, plans)

    def _loss(self, output: Any) -> Node:
        loss = output[0] if self.record.has_aux else output
        if not isinstance(loss, Tensor) or isinstance(loss, TracedNumber):
            hint = "; with further outputs pass has_aux=True" if isinstance(loss, tuple) else ""
            raise GradientError(f"the function must return a scalar Tensor, got {type(loss).__name__}{hint}")
        if loss.size != 1:
            raise GradientError(f"the gradient of a tensor of shape {loss.shape} is not defined; reduce it to a scalar")
        return self.capture.node_of(loss)

    def _results(self, output: Value, outer: Graph) -> tuple[list[Slot], list[Plan], list[Node]]:
        """Return the places that the function changes, plans for what they hold and for the output, and the leaves."""
        capture = self.capture
        changes: PathChanges = capture.heap.suspend()
        capture.heap.resume(changes)
        found = changed_slots([changes]).values()
        own = dict(
            zip((id(weight) for weight in self.weights), self.parameters[-len(self.weights) or None :], strict=False)
        )
        slots = [slot for slot in found if not (slot.container is capture.held and self._untouched(slot, own))]
        sees = capture.sees(outer)
        slots = [slot for slot in slots if capture.elements.concerns(slot, sees)]
        values = [*(read(slot) for slot in slots), freeze(output)]
        plans = [unify([value], sees) for value in values]
        nodes = [x for plan, value in zip(plans, values, strict=True) for x in extract(plan, value, capture)]
        return slots, plans, nodes

    def _untouched(self, slot: Slot, own: dict[int, ParameterNode]) -> bool:
        """Return whether a weight holds what it was given for the differentiation."""
        if slot.key not in own:
            return False
        held = self.capture.held[slot.key]
        return isinstance(held, TracedTensor) and held.node is own[slot.key]

    def _outside(self, slots: list[Slot], plans: list[Plan]) -> tuple[Value, list[Value]]:
        """Return the call of the gradient, its results in their places."""
        capture = self.capture
        free = free_variables(self.graph)
        closed = _closed(self.graph, free)
        count = len(self.parameters)
        gradient = grad_graph(closed, range(count), output=0)
        function = ConstantNode(gradient, gradient.type)
        whole = Apply(capture.graph, [function, *self.given, *free], gradient.result.type, None, capture.where())
        value = capture.graph.apply(tuple_getitem, whole, index=0)
        gradients = capture.graph.apply(tuple_getitem, whole, index=1)
        if BACKWARD_START:
            capture.host(
                notify_backward_start_from, (capture.value_of(capture.graph.apply(tuple_getitem, value, index=0)),), ()
            )
        leaves = sum(len(types_of(plan)) for plan in plans)
        nodes = iter([capture.graph.apply(tuple_getitem, value, index=i + 1) for i in range(leaves)])
        values = [rebuild(plan, nodes, capture) for plan in plans]
        for slot, held in zip(slots, values, strict=False):
            write(capture.heap, slot, held)
        assert isinstance(gradients.type, TupleType)
        found = [capture.value_of(capture.graph.apply(tuple_getitem, gradients, index=i)) for i in range(count)]
        first = count - len(self.weights)
        for number, weight in enumerate(self.weights, first):
            if weight._hooks:
                before = found[number]
                assert isinstance(before, Tensor)
                found[number] = apply_hooks(weight._hooks, before)
        return values[-1], found


def _closed(graph: Graph, free: list[Node]) -> Graph:
    """Return the graph with its free variables as last parameters."""
    extra = {node: ParameterNode(graph, node.type) for node in free}
    copy = clone(graph, dict(extra))
    for parameter in extra.values():
        parameter.graph = copy
    copy.parameters = [*copy.parameters, *extra.values()]
    return copy
