"""A loop over traced values as a graph that calls itself."""

import ast
from collections.abc import Callable
from typing import Any

from ..traced import CaptureError
from .flow import AGAIN, CONTINUE, NEXT, End, Flow, Jump, Split
from .frame import Frame
from .meeting import check_content
from .plan import MISSING, Plan, Static, extract, rebuild, types_of, unify
from .slots import WHOLE, Slot, changed_slots, read, write
from .unknown import Gap
from .unrolled import left
from .values import kind_of

_ROUNDS = 12  # of the search for the types of what is carried: each must find something new, and types are few

Value = Any  # a value of the user's program


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
        test: Callable[[], Value],
        begin: Callable[[], None],
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        names: frozenset[str],
        counter: dict[str, Value] | None = None,
    ) -> None:
        self.frame, self.test, self.begin, self.body, self.orelse = frame, test, begin, body, orelse
        self.capture = frame.interpreter.capture
        self.line = frame.line
        self.slots: dict[tuple[int, Any], Slot] = {}
        self.plans: dict[tuple[int, Any], Plan] = {}
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

    def capture_whole(self) -> Split:
        """The loop as a split: it begins with a call of the header, and its ends have left it."""
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

    def _attempt(self) -> Split | None:
        """The loop with the types that are known so far; None if they were not all."""
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
        return Split(start, jumps, [end for end in ends if end.flow is not AGAIN])

    def _rounds(self) -> Flow:
        """How the header goes on: AGAIN is the next round, NEXT the end of the loop."""
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
        if isinstance(flow, Split):
            ends = [
                End(AGAIN if end.flow in (NEXT, CONTINUE) else end.flow, end.graph, end.changes) for end in flow.ends
            ]
            return left(Split(flow.start, flow.jumps, ends, flow.dead))
        return AGAIN if flow in (NEXT, CONTINUE) else left(flow)

    def _learn(self, again: list[End], held: list[Value]) -> bool:
        """Whether the rounds change more than was known, or to other types."""
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
        """Whether it had a value before the loop: one that only a round gives it is gone in the next."""
        if not self.capture.elements.concerns(slot, self.capture.sees(self.capture.graph)):
            return False
        return slot.key is WHOLE or read(slot) is not MISSING

    def _check(self, slot: Slot, plan: Plan) -> None:
        if slot.key is WHOLE and isinstance(plan, Static) and isinstance(plan.value, Gap):
            kind = type(slot.container).__name__
            raise CaptureError(
                f"a {kind} changes its length in the loop over traced values at {self.frame.file}:{self.line}; a graph "
                f"has no {kind}s that grow: write into a tensor made before the loop (ops.where, ops.index_put), or "
                f"loop over range(n) with n known, which is unrolled"
            )
        check_content(slot, plan)
