"""Functions that call themselves under a condition on traced values: a graph that calls itself.

A call that looks like one that is still running (same function, same known values, same types of tensors), with a split
between them, would be interpreted for ever. The running one is then taken back and done again as a graph of its own,
with the tensors of its arguments as parameters; the inner calls become calls of that graph. What it returns is not
known when the first of them is met: that path waits (`ResultNeeded`), another path tells, and the graph is built again
with that type, until the types agree.
"""

from collections.abc import Callable

from ...ir import Apply, ConstantNode, FunctionType, Graph, Node
from ..traced import CaptureError
from .frames import Function, Interpreter
from .paths import changed_slots
from .staging import ResultNeeded
from .traced_numbers import TracedNumber, Value, kind_of
from .value_plans import KnownPart, Plan, extract, freeze, rebuild, same, types_of, unify

__all__ = ["called_once"]

_DEEP = 24  # calls of one function inside each other, with splits between, before its numbers count as not known


class _Recursive(Exception):
    """The running call has to become a graph."""

    def __init__(self, call: "_Running", widened: bool) -> None:
        super().__init__()
        self.call, self.widened = call, widened


class _Running:
    """A call that has not ended.

    Attributes:
        function: Its definition.
        variables: Its arguments, frozen.
        depth: How many paths are around it.
        graph: The graph that it has become, if it has.
        plans: For its arguments.
        result: The plan of what it returns, as far as known.
    """

    def __init__(self, function: Function, variables: dict[str, Value], depth: int) -> None:
        self.function, self.depth = function.definition, depth
        self.identity = function.identity
        self.variables = {name: freeze(value) for name, value in variables.items()}
        self.graph: Graph | None = None
        self.plans: dict[str, Plan] = {}
        self.result: Plan | None = None

    def plan(self, variables: dict[str, Value], widen: bool) -> dict[str, Plan] | None:
        """Return the plans that fit both this call and another; None if they differ in what is known."""
        if variables.keys() != self.variables.keys():
            return None
        plans = {}
        for name, value in variables.items():
            pair = [self.variables[name], freeze(value)]
            plan = unify(pair, lambda _: True, widen=False)
            leaf = _varies(plan)
            if leaf and not widen and _is_known(pair[0]) is not _is_known(pair[1]):
                return None
            if leaf and not widen and _is_known(pair[0]):
                return None
            if isinstance(plan, KnownPart) and not all(same(plan.value, x) for x in pair):
                return None
            plans[name] = plan
        return plans


def _varies(plan: Plan) -> bool:
    return bool(types_of(plan))


def _is_known(value: Value) -> bool:
    return kind_of(value) is not None and not isinstance(value, TracedNumber)


def called_once(
    interpreter: Interpreter,
    function: Function,
    variables: dict[str, Value],
    run: Callable[[dict[str, Value]], Value],
) -> Value:
    """Return what the function returns: its body interpreted, or a call of the graph that it has become."""
    capture = interpreter.capture
    depth = len(capture.heap.layers)
    outer = [
        call
        for call in interpreter.pending
        if call.function is function.definition and call.identity is function.identity and call.depth < depth
    ]
    for call in outer:
        if call.graph is not None and _fits(call, variables):
            return _call_again(interpreter, call, variables)
    if outer:
        _compare(outer, variables)
    running = _Running(function, variables, depth)
    interpreter.pending.append(running)
    try:
        with capture.attempt():
            return run(variables)
    except _Recursive as message:
        if message.call is not running:
            raise
    finally:
        interpreter.pending.remove(running)
    return _as_graph(interpreter, function, running, variables, run)


def _compare(outer: list[_Running], variables: dict[str, Value]) -> None:
    """Send a message to the running call if this one repeats it."""
    for call in reversed(outer):
        plans = call.plan(variables, widen=False)
        if plans is not None and call.graph is None:
            call.plans = plans
            raise _Recursive(call, widened=False)
    if len(outer) > _DEEP:
        plans = outer[0].plan(variables, widen=True)
        if plans is not None and outer[0].graph is None:
            outer[0].plans = plans
            raise _Recursive(outer[0], widened=True)
        name = outer[0].function.name
        raise CaptureError(
            f"the recursion of '{name}' does not come to an end while it is captured: its calls differ in known values "
            f"or in shapes; pass what changes as tensors of one shape"
        )


def _fits(call: _Running, variables: dict[str, Value]) -> bool:
    """Return whether a call can be one of the graph: what is known is the same, and tensors have its types."""
    if call.plans.keys() != variables.keys():
        return False
    for name, plan in call.plans.items():
        value = freeze(variables[name])
        held = unify([value], lambda _: False, widen=True)
        if isinstance(plan, KnownPart) and not _varies(plan):
            if not same(plan.value, value):
                return False
        elif held != plan:
            return False
    return True


def _as_graph(
    interpreter: Interpreter,
    function: Function,
    running: _Running,
    variables: dict[str, Value],
    run: Callable[[dict[str, Value]], Value],
) -> Value:
    """Return what the function returns, as a call of a graph of its own."""
    frozen = {name: freeze(value) for name, value in variables.items()}
    running.plans = {
        name: unify([frozen[name]], lambda _: False, widen=True) if _varies(plan) or _traced(frozen[name]) else plan
        for name, plan in running.plans.items()
    }
    interpreter.pending.append(running)
    try:
        for _ in range(8):
            try:
                found = _build(interpreter, function, running, run)
            except ResultNeeded as needed:
                if needed.call is not running:
                    raise
                raise CaptureError(
                    f"the recursive function '{function.definition.name}' calls itself on every path, so that what it "
                    f"returns is not known; give it a path that ends"
                ) from None
            if found == running.result:
                return _call_again(interpreter, running, variables)
            running.result = found
    finally:
        interpreter.pending.remove(running)
    raise CaptureError(f"the type of what the recursive function '{function.definition.name}' returns does not settle")


def _traced(value: Value) -> bool:
    return _varies(unify([value], lambda _: False))


def _build(
    interpreter: Interpreter, function: Function, running: _Running, run: Callable[[dict[str, Value]], Value]
) -> Plan:
    """Return the plan of what the body returns, which is now the graph of the call."""
    capture = interpreter.capture
    outer = capture.graph
    graph = running.graph = capture.new_graph(function.__name__, outer)
    types = [type for plan in running.plans.values() for type in types_of(plan)]
    nodes = iter([graph.add_parameter(type) for type in types])
    calls = dict(capture.cells.calls)
    with capture.attempt():
        capture.heap.push()
        capture.graph = graph
        running.depth = len(capture.heap.layers)
        value = freeze(run({name: rebuild(plan, nodes, capture) for name, plan in running.plans.items()}))
        plan = unify([value], lambda node: node.graph is None, widen=True)
        if plan == running.result:
            graph.output = _output(interpreter, plan, value)
        else:
            capture.cells.calls = calls
        capture.graph = outer
        changes = capture.heap.suspend()
    if any(capture.elements.concerns(slot, capture.sees(outer)) for slot in changed_slots([changes]).values()):
        raise CaptureError(
            f"the recursive function '{function.definition.name}' changes weights or variables that are not its own, "
            f"prints, raises or draws random keys; do that outside of the recursion, and return new values"
        )
    return plan


def _output(interpreter: Interpreter, plan: Plan, value: Value) -> Node:
    return interpreter.capture.tuple_node(list(extract(plan, value, interpreter.capture)))


def _call_again(interpreter: Interpreter, call: _Running, variables: dict[str, Value]) -> Value:
    """Return the result of a call of the graph."""
    if call.result is None:
        raise ResultNeeded(call)
    capture = interpreter.capture
    assert call.graph is not None
    nodes = [x for name, plan in call.plans.items() for x in extract(plan, freeze(variables[name]), capture)]
    types = types_of(call.result)
    result = types[0] if len(types) == 1 else capture.tuple_of(types)
    taken = FunctionType(tuple(node.type for node in nodes), result)
    whole = Apply(capture.graph, [ConstantNode(call.graph, taken), *nodes], result, None, capture.where())
    return rebuild(call.result, iter(capture.parts_of(whole, len(types))), capture)
