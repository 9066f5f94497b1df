"""`while` and `for`: over what is known each round in turn, over traced values a graph that calls itself.

    header(carried) = switch(condition, body, exit)()       body() = ... header(carried, changed)

What is carried: the variables that the body assigns, and whatever else turns out to change. Their types are found by
going through the body until nothing new appears; Python numbers become numbers that are not known. `break` is one more
way into the exit, `continue` one more call of the header; what follows the loop stands in the exit where a `return`
leaves from inside, else after the call.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

import numpy as np

from ... import ops
from ...ir import Graph
from ...specs import Shape
from ...symbolic import Dim
from ..traced import CaptureError
from .expressions import assign_to
from .frames import Frame, is_settled, statement
from .parse import analyse_names
from .paths import AGAIN, BREAK, CONTINUE, NEXT, WHOLE, End, Flow, Jump, PathSplit, Slot, changed_slots, read, write
from .source_builtins import loop_items
from .staging import check_content, converge, join
from .statements import mark_dead
from .traced_numbers import Gap, TracedIterable, TracedNumber, Value, as_number, compute, kind_of
from .value_plans import MISSING, KnownPart, Plan, extract, rebuild, types_of, unify

__all__ = ["run_rounds"]


#: A split that a round has entered, the jumps to its meeting point, its other ends, and the graph around it.
_Entered: TypeAlias = tuple[PathSplit, list[Jump], list[End], Graph]


def run_rounds(
    frame: Frame, rounds: Iterable[Callable[[], None]], body: list[ast.stmt], finish: Callable[[], Flow]
) -> Flow:
    """Return how a loop ends whose rounds are known.

    Args:
        frame: That it stands in.
        rounds: What each round begins with (it binds the variables).
        body: What it does.
        finish: What follows the last round, unless a `break` came first.
    """
    capture = frame.interpreter.capture
    entered: list[_Entered] = []
    with capture.attempt():
        flow: Flow = NEXT
        for begin in rounds:
            begin()
            with frame.in_loop():
                flow = _round(frame.block(body))
            if isinstance(flow, PathSplit):
                flow = _enter(frame, flow, entered)
            if flow is not NEXT:
                flow = left(flow)
                break
        else:
            flow = finish()
        return _unwind(frame, flow, entered) if entered else flow


def _round(flow: Flow) -> Flow:
    """Return the end of a round as the loop sees it: `continue` is the next round."""
    if isinstance(flow, PathSplit):
        ends = [End(NEXT, end.graph, end.changes) if end.flow is CONTINUE else end for end in flow.ends]
        return PathSplit(flow.start, flow.jumps, ends, flow.dead)
    return NEXT if flow is CONTINUE else flow


def _enter(frame: Frame, split: PathSplit, entered: list[_Entered]) -> Flow:
    """Return NEXT where the rounds go on, on the path of the ends that do; else the split."""
    capture = frame.interpreter.capture
    if is_settled(split):
        converge(capture, split)
        return NEXT
    going = [end for end in split.ends if end.flow is NEXT]
    if not going:
        return split
    end, jumps = join(capture, going, split.start.graph, split.dead)
    others = [leave(other) for other in split.ends if other.flow is not NEXT]
    entered.append((split, jumps, others, capture.graph))
    capture.resume(end)
    return NEXT


def _unwind(frame: Frame, flow: Flow, entered: list[_Entered]) -> Flow:
    """Return the split of the whole loop, after the last round."""
    capture = frame.interpreter.capture
    for split, jumps, others, outer in reversed(entered):
        ends, more = capture.settle(flow, outer)
        flow = PathSplit(split.start, [*split.jumps, *jumps, *more], [*others, *ends], split.dead)
    return flow


def leave(end: End) -> End:
    """Return the end of a loop as the code after it sees it: `break` goes on with the next line."""
    return End(NEXT, end.graph, end.changes) if end.flow is BREAK else end


def left(flow: Flow) -> Flow:
    """Return how a round that is the last one ends, as the code after the loop sees it."""
    if isinstance(flow, PathSplit):
        return PathSplit(flow.start, flow.jumps, [leave(end) for end in flow.ends], flow.dead)
    return NEXT if flow is BREAK else flow


_ROUNDS = 12  # of the search for the types of what is carried: each must find something new, and types are few


class GraphLoop:
    """One loop over traced values.

    Args:
        frame: That it stands in.
        test: Whether there is another round.
        begin: What a round begins with.
        body: What it does.
        orelse: What follows the last round, unless a `break` came first.
        names: What the body assigns.
        counter: The place in what a `for` goes through.
    """

    def __init__(
        self,
        frame: Frame,
        test: Callable[[], bool | TracedNumber],
        begin: Callable[[], None],
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        names: frozenset[str],
        counter: dict[str, Value] | None = None,
    ) -> None:
        self.frame, self.test, self.begin, self.body, self.orelse = frame, test, begin, body, orelse
        self.capture = frame.interpreter.capture
        self.line = frame.line
        self.slots: dict[tuple[int, object], Slot] = {}
        self.plans: dict[tuple[int, object], Plan] = {}
        if counter is not None:
            self._carry(Slot(counter, "place"))
        for name in sorted(names):
            scope = frame.scope.holder(name)
            if scope is not None and name in scope.variables:
                self._carry(Slot(scope.variables, name))

    def _carry(self, slot: Slot) -> None:
        key = slot.identity()
        if key not in self.slots:
            self.slots[key] = slot
            self.plans[key] = unify([read(slot)], self.capture.sees(self.capture.graph), widen=True)

    def capture_whole(self) -> PathSplit:
        """Return the loop as a split: it begins with a call of the header, and its ends have left it."""
        for _ in range(_ROUNDS):
            depth = len(self.capture.heap.layers)
            with self.capture.attempt():
                split = self._attempt()
            if split is not None:
                return split
            assert len(self.capture.heap.layers) == depth
        raise CaptureError(
            f"the types of what the loop at {self.frame.file}:{self.line} changes do not settle; "
            f"keep shapes and dtypes the same from round to round"
        )

    def _attempt(self) -> PathSplit | None:
        """Return the loop with the types that are known so far; None if they were not all."""
        capture, origin = self.capture, self.capture.graph
        calls = dict(capture.cells.calls)
        header = capture.new_graph("loop", origin)
        slots, plans = list(self.slots.values()), list(self.plans.values())
        initial = [node for slot, plan in zip(slots, plans, strict=True) for node in extract(plan, read(slot), capture)]
        parameters = [header.add_parameter(type) for plan in plans for type in types_of(plan)]
        nodes = iter(parameters)
        capture.heap.push()
        capture.graph = header
        for slot, plan in zip(slots, plans, strict=True):
            write(capture.heap, slot, rebuild(plan, nodes, capture))
        held = [read(slot) for slot in slots]
        ends, jumps = capture.settle(self._rounds(), origin)
        again = [end for end in ends if end.flow is AGAIN]
        if self._learn(again, held):
            capture.cells.calls = calls
            return None
        for end in again:
            with capture.resumed(end):
                args = [x for slot, plan in zip(slots, plans, strict=True) for x in extract(plan, read(slot), capture)]
            jumps.append(Jump(end.graph, None, (header,), tuple(args), capture.where()))
        start = Jump(origin, None, (header,), tuple(initial), capture.where())
        return PathSplit(start, jumps, [end for end in ends if end.flow is not AGAIN])

    def _rounds(self) -> Flow:
        """Return how the header goes on: AGAIN is the next round, NEXT the end of the loop."""
        condition = self.test()
        if condition is True:
            return self._round()
        if condition is False:
            return self.frame.block(self.orelse)
        return self.capture.branch(condition, self._round, lambda: self.frame.block(self.orelse))

    def _round(self) -> Flow:
        with self.frame.in_loop():
            self.begin()
            flow = self.frame.block(self.body)
        if isinstance(flow, PathSplit):
            ends = [
                End(AGAIN if end.flow in (NEXT, CONTINUE) else end.flow, end.graph, end.changes) for end in flow.ends
            ]
            return left(PathSplit(flow.start, flow.jumps, ends, flow.dead))
        return AGAIN if flow in (NEXT, CONTINUE) else left(flow)

    def _learn(self, again: list[End], held: list[Value]) -> bool:
        """Return whether the rounds change more than was known, or to other types."""
        learned = False
        for slot in changed_slots(end.changes for end in again).values():
            if slot.identity() not in self.slots and self._matters(slot):
                self._carry(slot)
                learned = True
        sees = self.capture.sees(self.capture.graph)
        for (key, slot), value in zip(list(self.slots.items()), held, strict=False):
            values = [value]
            for end in again:
                with self.capture.resumed(end):
                    values.append(read(slot))
            plan = unify(values, sees, widen=kind_of(value) is not None)
            if plan != self.plans[key]:
                self.plans[key] = plan
                learned = True
                self._check(slot, plan)
        return learned

    def _matters(self, slot: Slot) -> bool:
        """Return whether it had a value before the loop: one that only a round gives it is gone in the next."""
        if not self.capture.elements.concerns(slot, self.capture.sees(self.capture.graph)):
            return False
        return slot.key is WHOLE or read(slot) is not MISSING

    def _check(self, slot: Slot, plan: Plan) -> None:
        if slot.key is WHOLE and isinstance(plan, KnownPart) and isinstance(plan.value, Gap):
            kind = type(slot.container).__name__
            raise CaptureError(
                f"a {kind} changes its length in the loop over traced values at {self.frame.file}:{self.line}; a graph "
                f"has no {kind}s that grow: write into a tensor made before the loop (ops.where, ops.index_put), or "
                f"loop over range(n) with n known, which is unrolled"
            )
        check_content(slot, plan)


_UNROLLED = 32  # our choice: rounds that end early by traced conditions stand inside each other, a graph in a graph


@statement(ast.While)
def while_loop(frame: Frame, node: ast.While) -> Flow:
    """Run `while`: as long as the condition is known, round by round; from where it is not, a loop in the graph."""
    last: list[Value] = []

    def test() -> bool | TracedNumber:
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
    """Return whether the next round and how it ends are known now; the nodes made to find out are not used."""
    capture = frame.interpreter.capture
    found: list[bool] = []

    def look() -> Flow:
        frame.line = node.lineno
        condition = frame.interpreter.condition(frame, node.test)
        found.append(isinstance(condition, bool))
        if condition is True:
            with frame.in_loop():
                flow = frame.block(node.body)
            found.append(not isinstance(flow, PathSplit))
            return flow
        return NEXT

    calls = dict(capture.cells.calls)
    capture.explore(capture.new_graph("test", capture.graph), look)
    capture.cells.calls = calls
    return all(found)


@statement(ast.For)
def for_loop(frame: Frame, node: ast.For) -> Flow:
    """Run `for`: over a list, a range, a dict round by round; over a tensor or a traced range a loop in the graph."""
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
    """Return a range whose numbers are not known: the graph counts."""
    return TracedIterable(
        len(items), lambda place: compute("+", items.start, compute("*", place, items.step)), "a range"
    )


def _leaves_early(frame: Frame, node: ast.For, first: Value) -> bool:
    """Return whether a round may end the loop by a condition on traced values; the nodes made to find out are not
    used."""
    capture = frame.interpreter.capture
    found: list[bool] = []

    def look() -> Flow:
        assign_to(frame, node.target, first)
        with frame.in_loop():
            flow = frame.block(node.body)
        found.append(isinstance(flow, PathSplit) and any(end.flow not in (NEXT, CONTINUE) for end in flow.ends))
        return flow

    calls = dict(capture.cells.calls)
    capture.explore(capture.new_graph("test", capture.graph), look)
    capture.cells.calls = calls
    return any(found)


def _in_graph(frame: Frame, node: ast.For, items: TracedIterable) -> Flow:
    """Return a loop of the graph, over traced items or a number of them that is not known."""
    length = items.length
    if isinstance(length, Dim):
        shape = (length,)
        length = as_number(ops.full(cast("Shape", shape), 1, np.int64).sum())
    counter: dict[str, Value] = {"place": 0}
    capture = frame.interpreter.capture
    capture.heap.created(counter)

    def begin() -> None:
        place = counter["place"]
        capture.heap.touch(counter)
        counter["place"] = compute("+", place, 1)
        assign_to(frame, node.target, items.item(place))

    def test() -> bool | TracedNumber:
        return frame.interpreter.truth(compute("<", counter["place"], length))

    names = analyse_names(node.target, *node.body)
    loop = GraphLoop(frame, test, begin, node.body, node.orelse, names, counter=counter)
    split = loop.capture_whole()
    mark_dead(frame, node, split)
    return split
