"""Ends of paths that meet: a split whose ends all go on with the next line is closed, so that they go on as one.

What the ends have changed becomes what the closed split returns; a plan for each place says of which leaves it is made.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...dtype import bool_
from ...ir import Abstract, Apply, Constant, FunctionType, Graph, Node, OpaqueType
from ...ir.control import switch
from ...shape import Spec
from ..traced import CaptureError
from .barrier import behind_barrier
from .effects import raising
from .flow import NEXT, Dead, End, Flow, Jump, Raise, Return, Split
from .frozen import freeze
from .plan import MISSING, Leaf, Plan, extract, rebuild, types_of, unify
from .slots import WHOLE, Slot, Variables, changed_slots, read, write
from .unknown import Gap

if TYPE_CHECKING:
    from .staging import SourceCapture

__all__ = ["check_content", "converge", "extend", "join"]


def converge(capture: "SourceCapture", split: Split, result: bool = False) -> Any:
    """Nothing, or with `result` the value that all ends return: the split is closed, what it changed is here.

    Every end must go on with the next line, or return, or raise.
    """
    slots, plans, values = _agree(capture, split.ends, split.start.graph, split.dead, result)
    type = capture.tuple_of([leaf for plan in plans for leaf in types_of(plan)])
    for end, row in zip(split.ends, values, strict=True):
        with capture.resumed(end):
            if isinstance(end.flow, Raise):
                end.graph.output = raising(capture, end.flow.error, type, capture._after())
                continue
            nodes = [node for plan, x in zip(plans, row, strict=True) for node in extract(plan, x, capture)]
            end.graph.output = capture.tuple_node(nodes)
    whole = _close(capture, split, type)
    return _spread(capture, slots, plans, whole)


def join(capture: "SourceCapture", ends: list[End], origin: Graph, dead: Dead) -> tuple[End, list[Jump]]:
    """One end in the place of several that go on with the next line, and the calls that lead there."""
    if len(ends) == 1:
        return ends[0], []
    graph = capture.new_graph("after", origin)
    slots, plans, values = _agree(capture, ends, origin, dead, result=False)
    parameters = [graph.add_parameter(type) for plan in plans for type in types_of(plan)]
    jumps = []
    for end, row in zip(ends, values, strict=True):
        with capture.resumed(end):
            nodes = [node for plan, x in zip(plans, row, strict=True) for node in extract(plan, x, capture)]
            jumps.append(Jump(end.graph, None, (graph,), tuple(nodes), capture.where()))
    outer = capture.graph
    capture.heap.push()
    capture.graph = graph
    nodes_in = iter(parameters)
    for slot, plan in zip(slots, plans, strict=True):
        write(capture.heap, slot, rebuild(plan, nodes_in, capture))
    (end,), _ = capture.settle(NEXT, outer)
    return end, jumps


def extend(capture: "SourceCapture", split: Split, body: Callable[[], Flow]) -> Split:
    """The split with the body run by those of its ends that go on with the next line."""
    going = [end for end in split.ends if end.flow is NEXT]
    if not going:
        return split
    end, jumps = join(capture, going, split.start.graph, split.dead)
    with capture.attempt():
        outer = capture.graph
        capture.resume(end)
        ends, more = capture.settle(capture.guarded(body), outer)
    others = [other for other in split.ends if other.flow is not NEXT]
    return Split(split.start, [*split.jumps, *jumps, *more], [*others, *ends])


def _close(capture: "SourceCapture", split: Split, type: Abstract) -> Node:
    """The node that has the result of the split, whose ends have their outputs, all of this type."""
    for jump in split.jumps:
        jump.graph.output = _called(jump, type)
    return _called(split.start, type)


def _agree(
    capture: "SourceCapture", ends: list[End], graph: Graph, dead: Dead, result: bool
) -> tuple[list[Slot], list[Plan], list[list[Any]]]:
    """The places that change, the plan for each, and what stands there at each end; the result comes last."""
    going = [end for end in ends if not isinstance(end.flow, Raise)]
    places = changed_slots(end.changes for end in going)
    last = Slot(capture.order, "last")
    raises = any(isinstance(end.flow, Raise) and end.flow.error is not None for end in ends)
    if raises:  # who goes on has passed the place where others raise: that is an effect, too
        places[last.identity()] = last
    sees = capture.sees(graph)
    slots = [x for x in _relevant(list(places.values()), dead) if capture.elements.concerns(x, sees)]
    values: list[list[Any]] = []
    for end in ends:
        with capture.resumed(end):
            row = [read(slot) for slot in slots]
        if result:
            row.append(freeze(end.flow.value) if isinstance(end.flow, Return) else None)
        values.append(row)
    rows = [row for end, row in zip(ends, values, strict=True) if not isinstance(end.flow, Raise)]
    columns = zip(*rows, strict=True) if rows else [[None]] * (len(slots) + result)
    plans = [unify(list(column), capture.sees(graph)) for column in columns]
    if raises and rows:
        plans[slots.index(last)] = Leaf(Spec((0,), bool_))
    for slot, plan in zip(slots, plans, strict=False):
        check_content(slot, plan)
    return slots, plans, values


def _relevant(slots: list[Slot], dead: Dead) -> list[Slot]:
    """The places whose value anyone can still ask for."""
    return [slot for slot in slots if not (slot.container is dead[0] and slot.key in dead[1])]


def check_content(slot: Slot, plan: Plan) -> None:
    """Nothing; a list that paths have left with different content cannot be one list."""
    value = getattr(plan, "value", None)
    if isinstance(value, Gap) and (slot.key is WHOLE or not isinstance(slot.container, Variables)):
        kind = type(slot.container).__name__
        what = f"key {slot.key!r} of a dict" if slot.key is not WHOLE else f"a {kind}"
        reason = value.reason if value is not MISSING else "is there on some paths only"
        raise CaptureError(
            f"{what} changed under a condition on traced values, and {reason}; "
            f"change it on both paths alike, or keep tensors and choose with ops.where"
        )


def _called(jump: Jump, type: Abstract) -> Node:
    taken = FunctionType(tuple(argument.type for argument in jump.arguments), type)
    targets = [Constant(graph, taken) for graph in jump.targets]
    function: Node = targets[0]
    if jump.condition is not None:
        made = Constant(switch, OpaqueType("Control"))
        function = Apply(jump.graph, [made, jump.condition, *targets], taken, None, jump.where)
    return Apply(jump.graph, [function, *jump.arguments], type, None, jump.where)


def _spread(capture: "SourceCapture", slots: list[Slot], plans: list[Plan], whole: Node) -> Any:
    """The value of the last plan; those before are written to their places."""
    nodes = iter(capture.parts_of(whole, sum(len(types_of(plan)) for plan in plans)))
    values = [
        behind_barrier(capture, rebuild(plan, nodes, capture)) if types_of(plan) else rebuild(plan, nodes, capture)
        for plan in plans
    ]
    for slot, value in zip(slots, values, strict=False):
        write(capture.heap, slot, value)
    return values[-1] if len(values) > len(slots) else None
