"""Gradients of graphs, as graphs: reverse-mode differentiation from source to source."""

from collections.abc import Sequence

import numpy as np

from ...dtype import is_inexact
from ...errors import GradientError
from ...ir import Constant, Graph, Node, Parameter, TupleType
from ...ir.clone import clone
from ...ir.control import make_tuple
from ...ir.cotangent import carries_gradient, cotangent_type
from ...ir.types import Abstract
from ...ir.visit import Scopes, free_variables
from ...shape import Spec
from ...tensor import Tensor
from .transform import Transform

__all__ = ["forward_and_pullback", "grad_graph"]


def grad_graph(graph: Graph, wrt: Sequence[int], *, output: int | None = None) -> Graph:
    """The graph that returns `(what the graph returns, gradients)`, one gradient for each index.

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
    seed = Constant(Tensor(np.ones(loss.shape, loss.dtype)))
    value = transform.image(source.result)
    sweep = transform.sweep(into)
    sweep.add(source.result, _seeds(source.result.type, {output: seed}) if output is not None else seed)
    transform.run_back(sweep)
    into.output = into.apply(make_tuple, value, into.apply(make_tuple, *(sweep.complete(x) for x in by)))
    return into


def forward_and_pullback(
    graph: Graph, wrt: Sequence[int] | None = None, *, cotangents: Sequence[int] | None = None
) -> tuple[Graph, Graph]:
    """A graph that returns `(result, *residuals)`, and one from `(*residuals, *cotangents)` to the tuple of gradients.

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
    """The graph, wrapped in another if something in it calls it, and an empty one of the same parameters."""
    scopes = Scopes(graph)
    source = graph
    if scopes.holders(graph):
        source = Graph(graph.name)
        copies = [source.add_parameter(p.type, p.name, p.weight) for p in graph.parameters]
        source.output = source.call(Constant(graph, graph.type), *copies)
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
    """The graph with its free variables as first parameters."""
    first = {x: Parameter(back, x.type, f"residual{i}") for i, x in enumerate(residuals)}
    closed = clone(back, first)
    for parameter in first.values():
        parameter.graph = closed
    closed.parameters = [*first.values(), *closed.parameters]
    return closed
