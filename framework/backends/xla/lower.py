"""A graph as one function of JAX arrays, compiled by XLA."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np

from ...errors import EngineError
from ...ir import Apply, Constant, Graph, Node
from ...ir.control import Control
from ...ir.visit import Scopes
from ...primitive import Primitive
from ...random import Key
from ...tensor import Tensor
from .translation import KeyWords, apply, key_of, words_of

__all__ = ["Program", "compile_graph"]

# XLA takes over an array without a copy where it starts at a multiple of so many bytes.
_ALIGNMENT = 64
# A copy of so many bytes costs about what taking the memory over does: 5 us, measured.
_LARGE = 1 << 16


class _Closure(NamedTuple):
    """A graph and the values of its free variables."""

    graph: Graph
    values: dict[Node, Any]


class _Choice(NamedTuple):
    """What a switch gives: one of two functions, and which is known when the program runs."""

    condition: Any
    true: Any
    false: Any


class Program:
    """Evaluates a graph on traced JAX arrays; branches become `cond`, loops `while_loop`."""

    def __init__(self, root: Graph) -> None:
        self.root = root
        self._scopes = Scopes(root)
        self._running: list[Graph] = []
        self.assigned: dict[Node, Any] = {}

    def run(self, arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The result of the graph, and the new values of the weights it assigns."""
        result = self._call(_Closure(self.root, {}), list(arguments))
        return result, [self.assigned.get(p) for p in self.root.parameters]

    def _call(self, function: Any, arguments: list[Any]) -> Any:
        if isinstance(function, _Choice):
            return self._branch(function, arguments)
        if not isinstance(function, _Closure):
            raise EngineError(f"a graph for XLA applies {function!r}, which is no function")
        if self._is_loop(function.graph):
            return self._loop(function, arguments)
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

    def _body(self, closure: _Closure, arguments: list[Any]) -> Any:
        values = self._evaluated(closure, arguments)
        return self._value(closure.graph.result, values)

    def _evaluated(self, closure: _Closure, arguments: list[Any], stop: Node | None = None) -> dict[Node, Any]:
        values: dict[Node, Any] = dict(closure.values)
        values.update(zip(closure.graph.parameters, arguments, strict=True))
        for node in self._scopes.order(closure.graph):
            if node is not stop:
                values[node] = self._apply(node, values)
        return values

    def _value(self, node: Node, values: dict[Node, Any]) -> Any:
        if node in values:
            return values[node]
        if not isinstance(node, Constant):
            raise EngineError(f"{node!r} is out of scope in a graph for XLA")
        value = node.value
        if isinstance(value, Graph):
            free = self._scopes.free[value]
            return _Closure(value, {variable: self._value(variable, values) for variable in free})
        if isinstance(value, Tensor):
            return np.asarray(value._data)
        return words_of(value) if isinstance(value, Key) else value

    def _apply(self, node: Apply, values: dict[Node, Any]) -> Any:
        function = self._value(node.function, values)
        arguments = [self._value(x, values) for x in node.arguments]
        if isinstance(function, Primitive):
            return apply(function, tuple(arguments), node.attributes)
        if isinstance(function, Control):
            return self._control(function, arguments, node)
        return self._call(function, arguments)

    def _control(self, operation: Control, arguments: list[Any], node: Apply) -> Any:
        name = operation.name
        if name == "switch":
            condition, true, false = arguments
            if isinstance(true, _Closure | _Choice):
                return _Choice(condition, true, false)
            return jax.tree.map(lambda a, b: jnp.where(condition, a, b), true, false)
        if name in ("make_tuple", "make_environment"):
            return tuple(arguments)
        if name == "tuple_getitem":
            return arguments[0][node.attributes["index"]]
        if name == "depend":
            return arguments[0]
        if name == "assign":
            if len(self._running) > 1:
                raise EngineError("a weight assigned inside a branch or loop cannot be compiled for XLA")
            self.assigned[node.arguments[0]] = arguments[1]
            return arguments[1]
        if name == "child_key":
            return _child(arguments[0], node.attributes)
        if name == "zero_cotangent":
            return jnp.zeros(**node.attributes)
        raise EngineError(
            f"'{name}' in graph '{node.graph.name if node.graph else ''}' cannot be compiled for XLA; "
            f'compile with backend="numpy"'
        )

    def _branch(self, choice: _Choice, arguments: list[Any]) -> Any:
        condition = jnp.reshape(choice.condition, ()).astype(bool)
        return jax.lax.cond(
            condition,
            lambda given: self._call(choice.true, list(given)),
            lambda given: self._call(choice.false, list(given)),
            tuple(arguments),
        )

    # Loops: a graph that returns `switch(condition, step, leave)(...)`, whose step ends in a call of the graph.

    def _parts(self, graph: Graph) -> tuple[Apply, Apply] | None:
        """The application at the end of a loop's header, and the switch that it applies."""
        last = graph.result
        if not isinstance(last, Apply) or not isinstance(last.function, Apply) or not last.function.applies("switch"):
            return None
        return last, last.function

    def _is_loop(self, graph: Graph) -> bool:
        parts = self._parts(graph)
        if parts is None or graph in self._running:
            return False
        branches = [getattr(x, "value", None) for x in parts[1].arguments[1:]]
        return any(isinstance(b, Graph) and self._ends_in(b, graph) for b in branches)

    @staticmethod
    def _ends_in(graph: Graph, callee: Graph) -> bool:
        last = graph.result
        return isinstance(last, Apply) and getattr(last.function, "value", None) is callee

    def _loop(self, closure: _Closure, arguments: list[Any]) -> Any:
        parts = self._parts(closure.graph)
        assert parts is not None
        last, switch = parts
        true, false = (x.value for x in switch.arguments[1:] if isinstance(x, Constant))
        step_if = self._ends_in(true, closure.graph)
        step, leave = (true, false) if step_if else (false, true)

        def header(state: Any) -> dict[Node, Any]:
            return self._evaluated(closure, list(state), stop=last)

        def goes_on(state: Any) -> Any:
            condition = jnp.reshape(self._value(switch.arguments[0], header(state)), ()).astype(bool)
            return condition if step_if else ~condition

        def advance(state: Any) -> Any:
            values = header(state)
            inner = self._value(Constant(step, step.type), values)
            given = [self._value(x, values) for x in last.arguments]
            call = step.result
            assert isinstance(call, Apply)
            below = self._evaluated(inner, given, stop=call)
            return tuple(jax.tree.map(jnp.asarray, self._value(x, below)) for x in call.arguments)

        start = tuple(jax.tree.map(jnp.asarray, x) for x in arguments)
        self._running.append(closure.graph)
        try:
            end = jax.lax.while_loop(goes_on, lambda state: _like(advance(state), state), start)
            values = header(end)
            given = [self._value(x, values) for x in last.arguments]
            return self._call(self._value(Constant(leave, leave.type), values), given)
        finally:
            self._running.pop()


def _like(new: Any, old: Any) -> Any:
    """The state with the dtypes it had: what weak numbers made wider."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old)


def _child(key: KeyWords, attributes: dict[str, Any]) -> KeyWords:
    def child(words: Any) -> Any:
        return words_of(key_of(words).child(attributes["word"], *attributes["numbers"])).words

    return KeyWords(jax.pure_callback(child, jax.ShapeDtypeStruct((4,), np.uint32), key.words))


def to_jax(array: Any) -> Any:
    """The array as XLA takes it: shared where it is aligned, else copied; keys as words."""
    if isinstance(array, Key):
        return words_of(array)
    if not isinstance(array, np.ndarray):
        return array
    return jnp.from_dlpack(array) if _can_share(array) else jnp.asarray(array)


class _Shared:
    """Arrays as JAX takes them; what is handed over again and again (weights) is shared once, its memory seen anew.

    An array that shares memory follows what is written there, so weights may change in place between runs, though not
    during one: a run ends when its results are there. Arrays that cannot be shared go as they are, and JAX copies them.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], Any]] = {}

    def __call__(self, array: Any) -> Any:
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        if isinstance(array, Key):
            return words_of(array)
        if not isinstance(array, np.ndarray) or not _can_share(array):
            return array
        key, taken = id(array), jnp.from_dlpack(array)
        self._known[key] = ref(array, lambda _: self._known.pop(key, None)), taken
        return taken


def _can_share(array: Any) -> bool:
    if array.ctypes.data % _ALIGNMENT or not array.flags.c_contiguous or not array.flags.writeable:
        return False
    return bool(array.size) and array.dtype.kind in "biufc" and array.dtype.itemsize > 1


def compile_graph(graph: Graph, *, given: dict[int, Any] | None = None) -> Any:
    """The graph as an executable of arrays, compiled by XLA when it is first called.

    Args:
        graph: An outermost graph. Branches over tensors and loops are compiled; other recursion is an error.
        given: Arrays that outputs are to be written to, by number of the output: the arena of an optimizer.
    """

    def program(*arguments: Any) -> tuple[Any, list[Any]]:
        return Program(graph).run(arguments)

    compiled, shared = jax.jit(program), _Shared()

    def execute(arguments: Sequence[Any]) -> Any:
        with jax.enable_x64(True):
            result, assigned = compiled(*[shared(x) for x in arguments])
        owned = _Owned(arguments)
        for target, value in zip(arguments, assigned, strict=True):
            if value is not None:
                target[...] = np.asarray(value)
        if not given:
            return jax.tree.map(owned, result)
        return tuple([_written(y, given.get(number), owned) for number, y in enumerate(result)])

    return execute


def _written(y: Any, out: Any, owned: "_Owned") -> Any:
    if out is None:
        return jax.tree.map(owned, y)
    out[...] = np.asarray(y)
    return out


class _Owned:
    """Results as arrays that belong to the caller.

    A large result is not copied: its memory becomes the array's. XLA may give two results the same memory, or that of
    an argument; those are copied.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._taken = {x.ctypes.data for x in arguments if isinstance(x, np.ndarray)}

    def __call__(self, y: Any) -> Any:
        if y.nbytes < _LARGE or y.dtype.kind not in "iufc":
            return np.array(y)
        y = jax.block_until_ready(y)
        (device,) = y.devices()
        address = y.unsafe_buffer_pointer()
        if device.platform != "cpu" or address in self._taken:
            return np.array(y)
        self._taken.add(address)
        memory: Any = (ctypes.c_char * y.nbytes).from_address(address)
        memory.owner = y  # the array's base keeps it
        return np.frombuffer(memory, y.dtype).reshape(y.shape)
