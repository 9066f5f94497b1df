"""Loops in a graph: one that returns `switch(condition, step, leave)(...)`, whose step ends in a call of the graph."""

from typing import NamedTuple

from ...ir import Apply, Constant, Graph

__all__ = ["Loop", "loop_of"]


class Loop(NamedTuple):
    """The parts of a graph that is the header of a loop.

    Attributes:
        last: The application at its end, whose arguments go to the step or to the way out.
        switch: What chooses between the two.
        step: The graph that ends in a call of the header.
        leave: The other one.
        steps_if_true: Whether the loop goes on where the condition holds.
    """

    last: Apply
    switch: Apply
    step: Constant
    leave: Constant
    steps_if_true: bool


def loop_of(graph: Graph) -> Loop | None:
    """The loop that the graph is the header of; None where it is something else."""
    last = graph.result
    if not isinstance(last, Apply) or not isinstance(last.function, Apply) or not last.function.applies("switch"):
        return None
    true, false = last.function.arguments[1:]
    if not isinstance(true, Constant) or not isinstance(false, Constant):
        return None
    if _ends_in(true.value, graph):
        return Loop(last, last.function, true, false, True)
    if _ends_in(false.value, graph):
        return Loop(last, last.function, false, true, False)
    return None


def _ends_in(graph: object, callee: Graph) -> bool:
    """Whether the last thing that a graph does is a call of the other."""
    last = graph.result if isinstance(graph, Graph) else None
    return isinstance(last, Apply) and getattr(last.function, "value", None) is callee
