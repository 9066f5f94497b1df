"""Where results lie: in planned memory, in memory for the caller, or in that of an input that nobody reads any more."""

from collections.abc import Sequence
from typing import Any

from ...ir import Apply, Node
from ...shape import Shape, Spec
from ...tensor import Array
from .lifetimes import Root
from .scope import Scope
from .values import Value, have_same_owner, is_whole

__all__ = ["Memory"]


class Memory:
    """Memory for the results of one graph.

    Args:
        scope: Where the program is.
        result: What the graph returns.
        given: Arrays that outputs are to be written to, by number of the output.
    """

    def __init__(self, scope: Scope, result: Node, given: dict[int, Array]) -> None:
        self._scope, self._of, self._given = scope, result, given
        self._returned = self._returned_nodes()

    def _returned_nodes(self) -> dict[Root, int | None]:
        """The roots of what is returned, and the number of the output where it is that alone."""
        result = self._of
        while isinstance(result, Apply) and result.applies("depend"):
            result = result.arguments[0]
        parts = result.arguments if isinstance(result, Apply) and result.applies("make_tuple") else [result]
        found: dict[Root, int | None] = {}
        for i, part in enumerate(parts):
            for root in self._scope.lives.roots(part):
                found[root] = None if root in found else i
        for root in self._scope.lives.roots(self._of):
            found.setdefault(root, None)
        return found

    def result(self, value: Value, node: Node, *, top: bool, index: int | None = None) -> Value:
        """What is returned of a value: arrays that are the caller's alone."""
        if value.parts is not None:
            parts = [self.result(part, node, top=False, index=i if top else None) for i, part in enumerate(value.parts)]
            return Value(f"({''.join(part.name + ', ' for part in parts)})", parts=tuple(parts))
        if index in self._given:
            return self._given_result(value, self._given[index])
        if value.array is None or self._is_own(value):
            return value
        name = self._scope.code.new("r")
        self._scope.code.line(f"{name} = array({value.name})", value)
        return Value(name, value.array)

    def _given_result(self, value: Value, target: Array) -> Value:
        held = self._scope.code.constant(target)
        if not (value.owners and value.owners[0].kind == "given" and is_whole(value, value.owners[0])):
            self._scope.code.line(f"copyto({held}, {value.name})", value)
        return Value(held, target, is_static=True)

    def _is_own(self, value: Value) -> bool:
        """Whether the array lies in memory that was made for this result, and is all of it."""
        if len(value.owners) != 1 or value.owners[0].kind != "output" or not is_whole(value, value.owners[0]):
            return False
        buffer = value.owners[0]
        if buffer.purpose == "returned":
            return False  # once already
        buffer.purpose = "returned"
        return True

    def buffer(self, spec: Spec, root: Root) -> Value:
        """Memory for a result: planned, for the caller, or where the caller wants it."""
        if root not in self._returned:
            return self._scope.code.buffer(spec)
        number = self._returned[root]
        given = self._given.get(number) if number is not None else None
        if given is not None and given.size == spec.size and given.dtype == spec.dtype and given.flags.c_contiguous:
            return self._scope.code.buffer(spec, "given", given)
        return self._scope.code.buffer(spec, "output")

    def ordered(self, spec: Spec, root: Root, order: Shape | None) -> Value:
        """A buffer whose axes lie in memory in this order."""
        if order is None:
            return self.buffer(spec, root)
        held = self.buffer(Spec(tuple(spec.shape[axis] for axis in order), spec.dtype), root)
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        assert held.array is not None
        return self._scope.code.seen_as(held, f"{held.name}.transpose({back!r})", held.array.transpose(back))

    def overwritten(self, node: Apply, over: Sequence[int], spec: Spec) -> Value | None:
        """An input that dies here and whose buffer the result can take."""
        for i in over:
            x = node.arguments[i]
            value = self._scope.value(x)
            others = [y for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, (node, 0)) and not any(
                have_same_owner(value, self._scope.value(y)) for y in others
            ):
                return Value(value.name, value.array, value.owners, value.is_static)
        return None

    def _can_take(self, x: Node, value: Value, spec: Spec, root: Root) -> bool:
        if len(value.owners) != 1 or value.owners[0].kind != "planned" or not value.is_static:
            return False
        if (
            root in self._returned
            or not is_whole(value, value.owners[0])
            or not self._scope.lives.dies(x, self._scope.place)
        ):
            return False
        assert value.array is not None
        return bool(value.array.shape == spec.shape and value.array.dtype == spec.dtype)

    def taken_input(self, root: Root, spec: Spec, operands: Sequence[Any], out: Any, taken: set[int]) -> int | None:
        """The number of an input that dies here and can hold the output."""
        node = root[0]
        assert isinstance(node, Apply)
        for i, x in enumerate(node.arguments):
            if i in taken or operands[i].axes != out.axes or operands[i].dtype != out.dtype:
                continue
            value = self._scope.value(x)
            others = [self._scope.value(y) for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, root) and not any(have_same_owner(value, y) for y in others):
                return i
        return None
