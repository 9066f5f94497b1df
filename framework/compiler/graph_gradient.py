"""Gradients of graphs, as graphs: each graph gets a twin that returns its value and a back-propagator (J-transform).

    forward.g(x, ...) = (g(x, ...), back.g)         back.g(cotangent of the value) = (of g's environment, of x, ...)

A call of g becomes a call of its twin, and on the way back a call of the back-propagator that it returned. So loops
and recursion differentiate as they are: their residuals are the closures that their turns have left behind. Primitives
need no closures: their rules are written out in the back-propagator of the graph that they stand in.

Reference:
    Pearlmutter and Siskind 2008, "Reverse-mode AD in a functional framework: lambda the ultimate backpropagator".
    van Merrienboer et al. 2018, "Automatic differentiation in ML: where we are and where we should be going".
"""

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from ..dtype import is_inexact
from ..errors import GradientError
from ..ir import Apply, ConstantNode, Graph, Node, ParameterNode, TupleType
from ..ir.clone import clone
from ..ir.control_ops import (
    ENVIRONMENT,
    Control,
    carries_gradient,
    cotangent_type,
    make_environment,
    make_tuple,
    tuple_getitem,
)
from ..ir.ir_types import Abstract, FunctionType
from ..ir.visit import Scopes, free_variables
from ..primitive import Primitive
from ..specs import Spec
from ..tensor import Tensor
from .graph_backward import Activity, Sweep

__all__ = ["Transform", "forward_and_pullback", "forward_type", "grad_graph"]


def forward_type(type: Abstract) -> Abstract:
    """Return the type of a value on the way forward: functions return their value and a back-propagator."""
    if isinstance(type, TupleType):
        return TupleType(tuple(forward_type(part) for part in type.elements))
    if isinstance(type, FunctionType):
        arguments = tuple(forward_type(part) for part in type.arguments)
        back = FunctionType(
            (cotangent_type(type.result),),
            TupleType((ENVIRONMENT, *(cotangent_type(part) for part in type.arguments))),
        )
        return FunctionType(arguments, TupleType((forward_type(type.result), back)))
    return type


def _has_function(type: Abstract) -> bool:
    if isinstance(type, TupleType):
        return any(_has_function(part) for part in type.elements)
    return isinstance(type, FunctionType)


class Transform:
    """The twins of the graphs of one program.

    Args:
        root: The outermost graph; nothing in it calls it.
        by: Its parameters that are differentiated by.
        into: The graph that takes the way forward through the root, with the root's parameters.
    """

    def __init__(self, root: Graph, by: Iterable[Node], into: Graph) -> None:
        self._root = root
        self._scopes = Scopes(root)
        self._activity = Activity(self._scopes, by)
        self._images: dict[Node, Node] = dict(zip(root.parameters, into.parameters, strict=True))
        self._parts: dict[tuple[Node, int], Node] = {}
        self._back_propagators: dict[Node, Node] = {}
        self._twins: dict[Graph, Graph] = {root: into}
        self._untwinned: dict[Graph, Graph] = {}
        self._waiting: deque[Graph] = deque()
        self._forward(root)

    # What the way back asks: the protocol `World`.

    def image(self, node: Node) -> Node:
        """Return the node that holds the value on the way forward."""
        if isinstance(node, ConstantNode):
            if isinstance(node.value, Graph):
                return ConstantNode(self._twin(node.value), forward_type(node.value.type))
            return node
        if node not in self._images and isinstance(node, Apply):  # a choice between functions, made when it is used
            self._images[node] = self._copy(node)
        return self._images[node]

    def part(self, node: Node, index: int) -> Node:
        """Return the node that holds part `index` of a tuple on the way forward."""
        if (node, index) not in self._parts:
            image = self.image(node)
            assert image.graph is not None
            self._parts[node, index] = image.graph.apply(tuple_getitem, image, index=index)
        return self._parts[node, index]

    def is_active(self, node: Node) -> bool:
        """Return whether a gradient has to flow through."""
        return node in self._activity

    def environment(self, graph: Graph) -> list[Node]:
        """Return the active free variables of a graph."""
        return self._activity.environment(graph)

    def back_propagator(self, node: Apply) -> Node:
        """Return what turns the cotangent of a call into those of its function and arguments."""
        return self._back_propagators[node]

    def sweep(self, back: Graph) -> Sweep:
        """Return a way back whose nodes go into the graph `back`, before anything has been added to it."""
        return Sweep(back, self)

    def run_back(self, sweep: Sweep) -> None:
        """Go back through the root, and finish all twins."""
        sweep.run(self._scopes.order(self._root))
        while self._waiting:
            self._complete_twin(self._waiting.popleft())

    # The way forward.

    def _twin(self, graph: Graph) -> Graph:
        """Return the twin of a graph, perhaps without a body yet."""
        if graph not in self._twins:
            twin = self._twins[graph] = Graph(f"forward.{graph.name}")
            for parameter in graph.parameters:
                self._images[parameter] = twin.add_parameter(forward_type(parameter.type), parameter.name)
            self._waiting.append(graph)
        return self._twins[graph]

    def _forward(self, graph: Graph) -> None:
        """Let the twin compute what the graph computes."""
        for node in self._scopes.order(graph):
            function = node.function
            if not (isinstance(function, ConstantNode) and isinstance(function.value, Primitive | Control)):
                self._images[node] = self._call(node, self._twins[graph])
            elif not (node.applies("switch") and isinstance(node.type, FunctionType)):
                self._images[node] = self._copy(node)

    def _copy(self, node: Apply) -> Apply:
        """Return the same operation on the way forward."""
        assert node.graph is not None
        inputs = [node.inputs[0], *(self.image(x) for x in node.arguments)]
        return Apply(self._twins[node.graph], inputs, forward_type(node.type), node.attributes, node.where)

    def _call(self, node: Apply, twin: Graph) -> Node:
        arguments = [self.image(x) for x in node.arguments]
        if self._stays_plain(node):
            return Apply(twin, [self._plain(node.function), *arguments], node.type, None, node.where)
        function = self.image(node.function)
        both = twin.call(function, *arguments, where=node.where)
        self._back_propagators[node] = twin.apply(tuple_getitem, both, index=1)
        return twin.apply(tuple_getitem, both, index=0)

    def _stays_plain(self, node: Apply) -> bool:
        """Return whether a call needs no back-propagator: no gradient flows through it, and no twin gets into it."""
        targets = self._activity.targets(node.function)
        if node in self._activity or targets is None or any(_has_function(x.type) for x in (node, *node.arguments)):
            return False
        return not any(_has_function(free.type) for graph in targets for free in self._scopes.free[graph])

    def _plain(self, function: Node) -> Node:
        """Return a function as it was, over the values of the way forward; a loop keeps running in constant space."""
        if isinstance(function, ConstantNode):
            graph = function.value
            if graph not in self._untwinned:
                self._untwinned[graph] = clone(graph, {free: self.image(free) for free in self._scopes.free[graph]})
            return ConstantNode(self._untwinned[graph], graph.type)
        assert isinstance(function, Apply)
        assert function.graph is not None
        condition, true, false = function.arguments
        inputs = [function.inputs[0], self.image(condition), self._plain(true), self._plain(false)]
        return Apply(self._twins[function.graph], inputs, function.type, None, function.where)

    def _complete_twin(self, graph: Graph) -> None:
        """Give the twin its body and its back-propagator."""
        twin = self._twins[graph]
        self._forward(graph)
        back = Graph(f"back.{graph.name}")
        cotangent = back.add_parameter(cotangent_type(graph.result.type), "cotangent")
        sweep = self.sweep(back)
        sweep.add(graph.result, cotangent)
        sweep.run(self._scopes.order(graph))
        environment: Node = ConstantNode(None, ENVIRONMENT)
        if self._activity.environment(graph):
            parts = [
                sweep.complete(free) if sweep.found(free) else ConstantNode(None)
                for free in self._activity.environment(graph)
            ]
            environment = back.apply(make_environment, *parts)
        back.output = back.apply(make_tuple, environment, *(sweep.complete(p) for p in graph.parameters))
        twin.output = twin.apply(make_tuple, self.image(graph.result), ConstantNode(back, back.type))


def grad_graph(graph: Graph, wrt: Sequence[int], *, output: int | None = None) -> Graph:
    """Return the graph that returns `(what the graph returns, gradients)`, one gradient for each index.

    Args:
        graph: Returns a scalar, or a tuple with one in it; not changed.
        wrt: Indices of parameters to differentiate by.
        output: Which part of the result is differentiated, where it is a tuple; the first by default.

    Returns:
        A graph of the same parameters. Gradients are zeros where the result does not depend on a parameter. Graphs
        that only compute straight on are differentiated without closures.

    Raises:
        GradientError: The result is not a scalar, or a parameter has no gradient.
    """
    source, into = _prepared(graph, f"grad.{graph.name}")
    by = [_parameter(source, index) for index in wrt]
    loss = source.result.type
    if isinstance(loss, TupleType):
        output = output or 0
        loss = loss.elements[output]
    if not isinstance(loss, Spec) or not is_inexact(loss.dtype) or loss.size != 1:
        raise GradientError(
            f"the gradient of '{graph.name}' needs a floating-point scalar to start from, got {loss}; reduce it to one"
        )
    transform = Transform(source, by, into)
    seed = ConstantNode(Tensor(np.ones(loss.shape, loss.dtype)))
    value = transform.image(source.result)
    sweep = transform.sweep(into)
    sweep.add(source.result, _seeds(source.result.type, {output: seed}) if output is not None else seed)
    transform.run_back(sweep)
    into.output = into.apply(make_tuple, value, into.apply(make_tuple, *(sweep.complete(x) for x in by)))
    return into


def forward_and_pullback(
    graph: Graph, wrt: Sequence[int] | None = None, *, cotangents: Sequence[int] | None = None
) -> tuple[Graph, Graph]:
    """Return a graph that returns `(result, *residuals)`, and one from `(*residuals, *cotangents)` to the tuple of
    gradients.

    Args:
        graph: What is differentiated; not changed.
        wrt: Indices of parameters to differentiate by; by default all that can have a gradient.
        cotangents: Of which parts of the result cotangents are given, where it is a tuple; by default of all that can
            have one. Of a result that is no tuple there is one.
    """
    source, forward = _prepared(graph, f"forward.{graph.name}")
    if wrt is None:
        wrt = [i for i, p in enumerate(graph.parameters) if carries_gradient(p.type)]
    by = [_parameter(source, index) for index in wrt]
    transform = Transform(source, by, forward)
    value = transform.image(source.result)
    back = Graph(f"back.{graph.name}")
    result = source.result.type
    sweep = transform.sweep(back)
    given: list[Node] = []
    if isinstance(result, TupleType):
        places = [i for i, x in enumerate(result.elements) if carries_gradient(x)] if cotangents is None else cotangents
        given = [back.add_parameter(cotangent_type(result.elements[i]), f"cotangent{i}") for i in places]
        sweep.add(source.result, _seeds(result, dict(zip(places, given, strict=True))))
    elif carries_gradient(result):
        given = [back.add_parameter(cotangent_type(result), "cotangent")]
        sweep.add(source.result, given[0])
    transform.run_back(sweep)
    back.output = back.apply(make_tuple, *(sweep.complete(x) for x in by))
    residuals = free_variables(back)
    forward.output = forward.apply(make_tuple, value, *residuals)
    return forward, _closed(back, residuals)


def _prepared(graph: Graph, name: str) -> tuple[Graph, Graph]:
    """Return the graph, wrapped in another if something in it calls it, and an empty one of the same parameters."""
    scopes = Scopes(graph)
    source = graph
    if scopes.holders(graph):
        source = Graph(graph.name)
        copies = [source.add_parameter(p.type, p.name, p.weight) for p in graph.parameters]
        source.output = source.call(ConstantNode(graph, graph.type), *copies)
    into = Graph(name)
    for p in graph.parameters:
        into.add_parameter(p.type, p.name, p.weight)
    return source, into


def _parameter(graph: Graph, index: int) -> Node:
    parameter = graph.parameters[index]
    if not carries_gradient(parameter.type):
        raise GradientError(
            f"parameter {index} ({parameter.name or 'unnamed'}) of '{graph.name}' is {parameter.type}, which has no "
            f"gradient; differentiate by floating-point tensors"
        )
    return parameter


def _seeds(type: Abstract, given: dict[int, Node]) -> list[Node | None]:
    assert isinstance(type, TupleType)
    return [given.get(index) for index in range(len(type.elements))]


def _closed(back: Graph, residuals: Sequence[Node]) -> Graph:
    """Return the graph with its free variables as first parameters."""
    first = {x: ParameterNode(back, x.type, f"residual{i}") for i, x in enumerate(residuals)}
    closed = clone(back, first)
    for parameter in first.values():
        parameter.graph = closed
    closed.parameters = [*first.values(), *closed.parameters]
    return closed
