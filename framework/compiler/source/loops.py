"""`while` and `for`: over what is known each round in turn, over traced values a graph that calls itself.

    header(carried) = switch(condition, body, exit)()       body() = ... header(carried, changed)

What is carried: the variables that the body assigns, and whatever else turns out to change. Their types are found by
going through the body until nothing new appears; Python numbers become numbers that are not known. `break` is one more
way into the exit, `continue` one more call of the header; what follows the loop stands in the exit where a `return`
leaves from inside, else after the call.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import ops
from ...symbolic import Dim
from ..traced import CaptureError
from .assign import assign_to
from .builtin import loop_items
from .flow import CONTINUE, NEXT, Flow, Split
from .frame import Frame, statement
from .graph_loop import GraphLoop
from .number import compute
from .parse import analyse_names
from .statements import mark_dead
from .unknown import TracedIterable
from .unrolled import run_rounds
from .values import as_number

Value = Any  # a value of the user's program
_UNROLLED = 32  # our choice: rounds that end early by traced conditions stand inside each other, a graph in a graph


@statement(ast.While)
def while_loop(frame: Frame, node: ast.While) -> Flow:
    """`while`: as long as the condition is known, round by round; from where it is not, a loop in the graph."""
    last: list[Value] = []

    def test() -> Value:
        return frame.interpreter.condition(frame, node.test)

    def rounds() -> Iterator[Callable[[], None]]:
        while _is_known(frame, node):
            if test() is not True:
                last.append(False)
                return
            yield _nothing

    def finish() -> Flow:
        if last:
            return frame.block(node.orelse)
        names = analyse_names(*node.body, node.test)
        split = GraphLoop(frame, test, _nothing, node.body, node.orelse, names).capture_whole()
        mark_dead(frame, node, split)
        return split

    return run_rounds(frame, rounds(), node.body, finish)


def _nothing() -> None:
    pass


def _is_known(frame: Frame, node: ast.While) -> bool:
    """Whether the next round and how it ends are known now; the nodes made to find out are not used."""
    capture = frame.interpreter.capture
    found: list[bool] = []

    def look() -> Flow:
        frame.line = node.lineno
        condition = frame.interpreter.condition(frame, node.test)
        found.append(isinstance(condition, bool))
        if condition is True:
            with frame.in_loop():
                flow = frame.block(node.body)
            found.append(not isinstance(flow, Split))
            return flow
        return NEXT

    calls = dict(capture.cells.calls)
    capture.explore(capture.new_graph("test", capture.graph), look)
    capture.cells.calls = calls
    return all(found)


@statement(ast.For)
def for_loop(frame: Frame, node: ast.For) -> Flow:
    """`for`: over a list, a range, a dict round by round; over a tensor or a traced range a loop in the graph."""
    items = loop_items(frame.value(node.iter))
    if isinstance(items, TracedIterable):
        return _in_graph(frame, node, items)
    if isinstance(items, range) and len(items) > _UNROLLED and _leaves_early(frame, node, items[0]):
        try:
            with frame.interpreter.capture.attempt():
                assign_to(frame, node.target, items[0])  # there is a first round: it has a value afterwards
                return _in_graph(frame, node, _counted(items))
        except CaptureError:  # such as the counter as an index of a list: round by round it is known
            pass
    content = frame.interpreter.outside.content(items)
    rounds = (lambda value=value: assign_to(frame, node.target, value) for value in content)
    return run_rounds(frame, rounds, node.body, lambda: frame.block(node.orelse))


def _counted(items: range) -> TracedIterable:
    """A range whose numbers are not known: the graph counts."""
    return TracedIterable(
        len(items), lambda place: compute("+", items.start, compute("*", place, items.step)), "a range"
    )


def _leaves_early(frame: Frame, node: ast.For, first: Value) -> bool:
    """Whether a round may end the loop by a condition on traced values; the nodes made to find out are not used."""
    capture = frame.interpreter.capture
    found: list[bool] = []

    def look() -> Flow:
        assign_to(frame, node.target, first)
        with frame.in_loop():
            flow = frame.block(node.body)
        found.append(isinstance(flow, Split) and any(end.flow not in (NEXT, CONTINUE) for end in flow.ends))
        return flow

    calls = dict(capture.cells.calls)
    capture.explore(capture.new_graph("test", capture.graph), look)
    capture.cells.calls = calls
    return any(found)


def _in_graph(frame: Frame, node: ast.For, items: TracedIterable) -> Flow:
    """A loop of the graph, over traced items or a number of them that is not known."""
    length = items.length
    if isinstance(length, Dim):
        shape: Any = (length,)
        length = as_number(ops.full(shape, 1, np.int64).sum())
    counter: dict[str, Value] = {"place": 0}
    capture = frame.interpreter.capture
    capture.heap.created(counter)

    def begin() -> None:
        place = counter["place"]
        capture.heap.touch(counter)
        counter["place"] = compute("+", place, 1)
        assign_to(frame, node.target, items.item(place))

    def test() -> Value:
        return compute("<", counter["place"], length)

    names = analyse_names(node.target, *node.body)
    loop = GraphLoop(frame, test, begin, node.body, node.orelse, names, counter)
    split = loop.capture_whole()
    mark_dead(frame, node, split)
    return split
