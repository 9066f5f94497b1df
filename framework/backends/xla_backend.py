"""The backend of XLA: whole graphs as one compiled function of JAX arrays. Needs JAX (extra `xla`)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import EngineError
from ..ir import Apply, ConstantNode, Graph, Node
from ..ir.control_ops import Control
from ..ir.visit import Scopes
from ..primitive import Primitive
from ..random import Key
from ..tensor import Array, Tensor
from ..xla.jax_arrays import Owned, Shared
from ..xla.translation_table import KeyWords, Operand, apply, key_of, words_of

__all__ = ["Program", "XlaLoop", "compile_graph", "loop_of"]


class XlaLoop(NamedTuple):
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
    step: ConstantNode
    leave: ConstantNode
    steps_if_true: bool


def loop_of(graph: Graph) -> XlaLoop | None:
    """Return the loop that the graph is the header of; None where it is something else."""
    last = graph.result
    if not isinstance(last, Apply) or not isinstance(last.function, Apply) or not last.function.applies("switch"):
        return None
    true, false = last.function.arguments[1:]
    if not isinstance(true, ConstantNode) or not isinstance(false, ConstantNode):
        return None
    if _ends_in(true.value, graph):
        return XlaLoop(last, last.function, true, false, True)
    if _ends_in(false.value, graph):
        return XlaLoop(last, last.function, false, true, False)
    return None


def _ends_in(graph: object, callee: Graph) -> bool:
    """Return whether the last thing that a graph does is a call of the other."""
    last = graph.result if isinstance(graph, Graph) else None
    return isinstance(last, Apply) and getattr(last.function, "value", None) is callee


#: The values of nodes while JAX traces the program: operands, functions, operations, words, and tuples of them.
_Values: TypeAlias = dict[Node, object]


class _Closure(NamedTuple):
    """A graph and the values of its free variables."""

    graph: Graph
    values: _Values


class _Choice(NamedTuple):
    """What a switch gives: one of two functions, and which is known when the program runs."""

    condition: jax.Array
    true: object
    false: object


class Program:
    """Evaluates a graph on traced JAX arrays; branches become `cond`, loops `while_loop`."""

    def __init__(self, root: Graph) -> None:
        self.root = root
        self._scopes = Scopes(root)
        self._running: list[Graph] = []
        self.assigned: dict[Node, jax.Array] = {}

    def run(self, arguments: Sequence[Operand]) -> tuple[object, list[jax.Array | None]]:
        """Return the result of the graph, and the new values of the weights it assigns."""
        result = self._call(_Closure(self.root, {}), list(arguments))
        return result, [self.assigned.get(p) for p in self.root.parameters]

    def _call(self, function: object, arguments: Sequence[object]) -> object:
        if isinstance(function, _Choice):
            return self._branch(function, arguments)
        if not isinstance(function, _Closure):
            raise EngineError(f"a graph for XLA applies {function!r}, which is no function")
        loop = None if function.graph in self._running else loop_of(function.graph)
        if loop is not None:
            return self._loop(loop, function, arguments)
        if function.graph in self._running:
            raise EngineError(
                f"the recursion of '{function.graph.name}' is no loop: XLA has no call stack; "
                f'compile it with backend="numpy"'
            )
        self._running.append(function.graph)
        try:
            return self._body(function, arguments)
        finally:
            self._running.pop()

    def _body(self, closure: _Closure, arguments: Sequence[object]) -> object:
        values = self._evaluated(closure, arguments)
        return self._value(closure.graph.result, values)

    def _evaluated(self, closure: _Closure, arguments: Sequence[object], stop: Node | None = None) -> _Values:
        values: _Values = dict(closure.values)
        values.update(zip(closure.graph.parameters, arguments, strict=True))
        for node in self._scopes.order(closure.graph):
            if node is not stop:
                values[node] = self._apply(node, values)
        return values

    def _value(self, node: Node, values: _Values) -> object:
        if node in values:
            return values[node]
        if not isinstance(node, ConstantNode):
            raise EngineError(f"{node!r} is out of scope in a graph for XLA")
        value = node.value
        if isinstance(value, Graph):
            free = self._scopes.free[value]
            return _Closure(value, {variable: self._value(variable, values) for variable in free})
        if isinstance(value, Tensor):
            return np.asarray(value._data)
        return words_of(value) if isinstance(value, Key) else value

    def _apply(self, node: Apply, values: _Values) -> object:
        function = self._value(node.function, values)
        arguments = [self._value(x, values) for x in node.arguments]
        if isinstance(function, Primitive):
            return apply(function, cast("tuple[Operand, ...]", tuple(arguments)), node.attributes)
        if isinstance(function, Control):
            return self._control(function, arguments, node)
        return self._call(function, arguments)

    def _control(self, operation: Control, arguments: list[object], node: Apply) -> object:
        name = operation.name
        if name == "switch":
            condition, true, false = arguments
            if isinstance(true, _Closure | _Choice):
                return _Choice(condition, true, false)
            return jax.tree.map(lambda a, b: jnp.where(condition, a, b), true, false)
        if name in ("make_tuple", "make_environment"):
            return tuple(arguments)
        if name == "tuple_getitem":
            return cast("tuple[object, ...]", arguments[0])[node.attributes["index"]]
        if name == "depend":
            return arguments[0]
        if name == "assign":
            if len(self._running) > 1:
                raise EngineError("a weight assigned inside a branch or loop cannot be compiled for XLA")
            self.assigned[node.arguments[0]] = cast("jax.Array", arguments[1])
            return arguments[1]
        if name == "child_key":
            return _child(cast("KeyWords", arguments[0]), **node.attributes)
        if name == "zero_cotangent":
            return jnp.zeros(**node.attributes)
        raise EngineError(
            f"'{name}' in graph '{node.graph.name if node.graph else ''}' cannot be compiled for XLA; "
            f'compile with backend="numpy"'
        )

    def _branch(self, choice: _Choice, arguments: Sequence[object]) -> object:
        condition = jnp.reshape(choice.condition, ()).astype(bool)
        return jax.lax.cond(
            condition,
            lambda given: self._call(choice.true, list(given)),
            lambda given: self._call(choice.false, list(given)),
            tuple(arguments),
        )

    def _loop(self, loop: XlaLoop, closure: _Closure, arguments: Sequence[object]) -> object:
        def header(state: Sequence[object]) -> _Values:
            return self._evaluated(closure, list(state), stop=loop.last)

        def goes_on(state: Sequence[object]) -> jax.Array:
            condition = jnp.reshape(self._value(loop.switch.arguments[0], header(state)), ()).astype(bool)
            return condition if loop.steps_if_true else ~condition

        def advance(state: Sequence[object]) -> tuple[object, ...]:
            values = header(state)
            inner = self._value(loop.step, values)
            assert isinstance(inner, _Closure)
            given = [self._value(x, values) for x in loop.last.arguments]
            call = loop.step.value.result
            assert isinstance(call, Apply)
            below = self._evaluated(inner, given, stop=call)
            return tuple(jax.tree.map(jnp.asarray, self._value(x, below)) for x in call.arguments)

        start = tuple(jax.tree.map(jnp.asarray, x) for x in arguments)
        self._running.append(closure.graph)
        try:
            end = jax.lax.while_loop(goes_on, lambda state: _like(advance(state), state), start)
            values = header(end)
            given = [self._value(x, values) for x in loop.last.arguments]
            return self._call(self._value(loop.leave, values), given)
        finally:
            self._running.pop()


def _like(new: tuple[object, ...], old: tuple[object, ...]) -> tuple[object, ...]:
    """Return the state with the dtypes it had: what weak numbers made wider."""
    return tuple(jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old))


def _child(key: KeyWords, *, word: bytes, numbers: tuple[int, ...]) -> KeyWords:
    def child(words: jax.Array) -> "jax.Array | Array":
        return words_of(key_of(words).child(word, *numbers)).words

    return KeyWords(jax.pure_callback(child, jax.ShapeDtypeStruct((4,), np.uint32), key.words))


def compile_graph(graph: Graph, *, given: dict[int, Array] | None = None) -> Callable[[Sequence[Array | Key]], object]:
    """Return the graph as an executable of arrays, compiled by XLA when it is first called.

    Args:
        graph: An outermost graph. Branches over tensors and loops are compiled; other recursion is an error.
        given: Arrays that outputs are to be written to, by number of the output: the arena of an optimizer.
    """

    def program(*arguments: Operand) -> tuple[object, list[jax.Array | None]]:
        return Program(graph).run(arguments)

    compiled, shared = jax.jit(program), Shared()

    def execute(arguments: Sequence[Array | Key]) -> object:
        with jax.enable_x64(True):
            result, assigned = compiled(*[shared(x) for x in arguments])
        owned = Owned(arguments)
        for target, value in zip(arguments, assigned, strict=True):
            if value is not None and isinstance(target, np.ndarray):
                target[...] = np.asarray(value)
        if not given:
            return jax.tree.map(owned, result)
        return tuple([_written(y, given.get(number), owned) for number, y in enumerate(result)])

    return execute


def _written(y: jax.Array, out: Array | None, owned: Owned) -> object:
    if out is None:
        return jax.tree.map(owned, y)
    out[...] = np.asarray(y)
    return out
