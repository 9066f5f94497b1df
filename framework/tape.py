"""Reverse mode: from a result back through the recorded nodes to the tensors it was made of.

Every node has a number, larger than those of the nodes before it. The backward pass takes the pending node of the
largest number: all users of its outputs have been visited then, so its gradient is complete. The vjp rules are
primitives on tensors; with `create_graph` they are recorded like any others, which is all that derivatives of higher
order need.

`Tensor.backward` adds gradients to `.grad` of the leaves; `gradients` returns those of chosen targets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from .context import CAPTURE, PULLING, quiet, recording
from .errors import GradientError, ShapeError
from .hooks import AutogradNode, Handle, Hooks, call_hooks
from .primitive import PRIMITIVES
from .tape_node import TapeNode
from .tensor import METHODS, Array, Tensor, method, wrap

__all__ = ["apply_hooks", "backpropagate", "gradients", "notify_backward_start_from", "register_backward_start_hook"]

# Hooks on complete gradients and on the start of a pass; those of a captured pass are called when the graph runs.

BACKWARD_START: Hooks = {}


def register_backward_start_hook(hook: Callable[[Tensor], object]) -> Handle:
    """Call `hook(root)` in this process whenever a backward pass starts from a tensor `root`.

    Called by `Tensor.backward`, `grad` and `value_and_grad`, before any gradient is computed. What it returns is
    ignored.
    """
    return Handle(BACKWARD_START, hook)


def notify_backward_start(root: Tensor) -> None:
    """Call the hooks on the start of a backward pass from `root`."""
    capture = CAPTURE.get()
    if capture is None:
        call_hooks(BACKWARD_START, root)
    elif BACKWARD_START:
        capture.host(notify_backward_start_from, (root,), ())


def notify_backward_start_from(root: Array) -> tuple[()]:
    """Call the hooks on the start of a backward pass from an array, which is what a graph hands over."""
    call_hooks(BACKWARD_START, wrap(root))
    return ()


def apply_hooks(hooks: Hooks, gradient: Tensor) -> Tensor:
    """Call the hooks on a complete gradient and return it, or what a hook returned instead."""
    if CAPTURE.get() is not None:
        return PRIMITIVES["show"](gradient, hook=lambda values: (apply_hooks(hooks, values[0]),))
    for number in tuple(hooks):
        hook = hooks.get(number)
        replaced = hook(gradient) if hook is not None else None
        if replaced is not None:
            gradient = replaced
    return gradient


# Where gradients are collected.

#: A leaf itself (by identity), or an output of a node (its order and the output's index).
GradientKey: TypeAlias = int | tuple[int, int]


def gradient_key(x: Tensor) -> GradientKey:
    """Return the key under which the gradient of `x` is collected."""
    return id(x) if x._node is None else (x._node.order, x._index)


def nodes_between(roots: Sequence[Tensor], targets: set[GradientKey]) -> set[AutogradNode]:
    """Return the nodes between the targets and the roots: the backward pass need visit no others."""
    seen: set[AutogradNode] = set()
    stack = [root._node for root in roots if root._node is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        inputs = node.inputs if node.inputs is not None else node.saved_inputs()  # raises: they were freed
        parents = (x for x in inputs if isinstance(x, Tensor) and gradient_key(x) not in targets)
        stack.extend(x._node for x in parents if x._node is not None)
    needed: set[AutogradNode] = set()
    for node in sorted(seen, key=lambda node: node.order):
        for x in node.inputs or ():
            if isinstance(x, Tensor) and x.requires_grad and (x._node in needed or gradient_key(x) in targets):
                needed.add(node)
                break
    return needed


class GradientSums:
    """The gradients collected in one pass; arrays that nobody else holds are added to in place.

    Args:
        is_recorded: Whether the pass itself is recorded: then every addition is a primitive.
    """

    __slots__ = ("_is_recorded", "_owned", "totals")

    def __init__(self, is_recorded: bool) -> None:
        self.totals: dict[GradientKey, Tensor] = {}
        self._owned: set[GradientKey] = set()
        self._is_recorded = is_recorded

    def add(self, key: GradientKey, gradient: Tensor, is_fresh: bool) -> None:
        """Add a gradient to the sum of a key; a fresh one is held by nobody else."""
        total = self.totals.get(key)
        if total is None:
            self.totals[key] = gradient
            if is_fresh:
                self._owned.add(key)
        elif self._is_recorded:
            self.totals[key] = PRIMITIVES["add"](total, gradient)
        elif key in self._owned and gradient.__fallback__ is None:
            np.add(total._data, gradient._data, out=total._data)
        else:
            self.totals[key] = PRIMITIVES["add"](total, gradient)
            if self.totals[key].__fallback__ is None:
                self._owned.add(key)

    def is_owned(self, key: GradientKey, gradient: Tensor) -> bool:
        """Return whether the finished gradient is an array of its own, in C order."""
        return key in self._owned and gradient is self.totals[key] and gradient._data.flags.c_contiguous


class BackwardPass:
    """One backward pass.

    Args:
        create_graph: Whether the pass itself is recorded.
        targets: The keys of the wanted gradients; None for those of the leaves.
        needed: The nodes between the roots and the targets.

    Attributes:
        leaves: The tensors that gradients have arrived at, by key.
    """

    __slots__ = ("_heap", "_is_eager", "_needed", "_pending", "_targets", "create_graph", "leaves", "sums")

    def __init__(
        self,
        create_graph: bool,
        targets: set[GradientKey] | None = None,
        needed: set[AutogradNode] | None = None,
    ) -> None:
        self.create_graph = create_graph
        self.sums = GradientSums(create_graph)
        self.leaves: dict[GradientKey, Tensor] = {}
        self._heap: list[tuple[int, AutogradNode]] = []
        self._pending: set[int] = set()
        self._targets = targets
        self._needed: set[AutogradNode] = set() if needed is None else needed
        self._is_eager = not create_graph and CAPTURE.get() is None

    def deliver(self, x: Tensor, gradient: Tensor, is_fresh: bool = False) -> None:
        """Collect a gradient of `x` and schedule the node that made it."""
        node = x._node
        key: GradientKey = id(x) if node is None else (node.order, x._index)
        self.sums.add(key, gradient, is_fresh)
        if node is None or (self._targets is not None and key in self._targets):
            self.leaves[key] = x
        elif node.order not in self._pending:
            self._pending.add(node.order)
            heappush(self._heap, (-node.order, node))

    def run(self, retain_graph: bool) -> None:
        """Pull every pending node back, and free it unless the graph is retained."""
        token = PULLING.set(True)
        try:
            while self._heap:
                node: TapeNode = heappop(self._heap)[1]  # type: ignore[assignment]  # what is on the tape
                self._visit(node)
                if not retain_graph:
                    node.free()
        finally:
            PULLING.reset(token)

    def complete(self, key: GradientKey) -> Tensor | None:
        """Return the finished gradient of a leaf or target, after its hooks."""
        gradient = self.sums.totals.get(key)
        if gradient is None:
            return None
        x = self.leaves[key]
        hooks = x._hooks if x._node is None else (x._node.hooks or {}).get(x._index)
        return apply_hooks(hooks, gradient) if hooks else gradient

    def _visit(self, node: TapeNode) -> None:
        """Hand the complete gradient of a node on to its arguments."""
        g = self._collected(node) if node.hooks or node.size > 1 else self.sums.totals.pop((node.order, 0))
        inputs = node.saved_inputs()
        if self._targets is None:
            needs = [isinstance(x, Tensor) and x.requires_grad for x in inputs]
        else:
            needs = [self._is_needed(x, self._targets) for x in inputs]
        pulled: Iterable[_Delivery] | None = None
        if self._is_eager and node.eager_vjp is not None and g.__fallback__ is None:
            pulled = _pull_eagerly(node, inputs, needs, g._data)
        for x, gradient, is_fresh in _pull(node, inputs, needs, g) if pulled is None else pulled:
            self.deliver(x, gradient, is_fresh)

    def _collected(self, node: TapeNode) -> Any:  # a tensor, or a list of tensors and None
        """Take the complete gradient of the node's output, after its hooks; a list for several outputs."""
        totals = self.sums.totals
        collected = [totals.pop((node.order, index), None) for index in range(node.size)]
        for index, hooks in (node.hooks or {}).items():
            gradient = collected[index]
            if gradient is not None:
                collected[index] = apply_hooks(hooks, gradient)
        return collected[0] if node.size == 1 else collected

    def _is_needed(self, x: object, targets: set[GradientKey]) -> bool:
        """Return whether a gradient of this argument is needed to get to the targets."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        return x._node in self._needed or gradient_key(x) in targets


#: An argument of a node, its gradient, and whether nobody else holds that array.
_Delivery = tuple[Tensor, Tensor, bool]


def _pull(node: TapeNode, inputs: tuple[Any, ...], needs: Sequence[bool], g: Any) -> Iterator[_Delivery]:
    """Yield the gradients of the arguments by the rules on tensors."""
    arguments = (g,) if node.size == 1 else g
    held = {id(x._data) for x in (*arguments, *inputs) if isinstance(x, Tensor) and x.__fallback__ is None}
    held.add(id(node.outputs))
    for x, need, gradient in zip(inputs, needs, node.primitive.pull_back(node, inputs, needs, g), strict=True):
        if not need or gradient is None:
            continue
        if gradient.__fallback__ is not None:
            yield x, gradient, False
            continue
        array = gradient._data
        yield x, gradient, _owns_memory(array) and id(array) not in held
        held.add(id(array))


def _pull_eagerly(node: TapeNode, inputs: tuple[Any, ...], needs: Sequence[bool], g: Array) -> list[_Delivery] | None:
    """Return the gradients of the arguments by the rule on arrays; None where it leaves them to the other rules."""
    arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    pulled = node.eager_vjp(needs, g, node.outputs, *arrays, **node.attributes)
    if pulled is NotImplemented:
        return None
    held = {id(g), id(node.outputs), *map(id, arrays)}
    deliveries = []
    for x, need, gradient in zip(inputs, needs, pulled, strict=True):
        if need and gradient is not None:
            array = gradient if type(gradient) is np.ndarray else np.asarray(gradient)
            deliveries.append((x, wrap(array), _owns_memory(array) and id(array) not in held))
            held.add(id(array))
    return deliveries


def _owns_memory(array: Array) -> bool:
    """Return whether the array is no view, and may be written to."""
    return array.base is None and array.flags.writeable


# The functions that start a pass.


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    """Return the gradient that the pass starts from."""
    if not root.requires_grad:
        raise GradientError(
            "backward from a tensor that requires no gradient: nothing it was computed from requires one, "
            "or it was computed inside no_grad()"
        )
    if gradient is None:
        if root.size != 1:
            raise GradientError(
                f"the gradient of a tensor of shape {root.shape} needs a weight for each element; "
                f"reduce it to a scalar, or pass gradient="
            )
        return METHODS["ones_like"](root)
    if gradient.shape != root.shape:
        raise ShapeError(f"gradient= expects the shape of the tensor, {root.shape}, got {gradient.shape}")
    return gradient


@method
def backward(root: Tensor, gradient: Tensor | None = None, *, retain_graph: bool, create_graph: bool) -> None:
    """Add gradients of `root` to `.grad` of every leaf that requires one."""
    seed = _seed(root, gradient)
    notify_backward_start(root)
    with quiet(), recording(create_graph):
        backward_pass = BackwardPass(create_graph)
        backward_pass.deliver(root, seed)
        backward_pass.run(retain_graph)
        for key in backward_pass.leaves:
            _accumulate(backward_pass, key)


def _accumulate(backward_pass: BackwardPass, key: GradientKey) -> None:
    """Add one finished gradient to the `.grad` of its leaf, whose array nobody else holds."""
    leaf, gradient = backward_pass.leaves[key], backward_pass.complete(key)
    if gradient is None:
        return
    capture = CAPTURE.get()
    if capture is not None:
        capture.touch_grad(leaf)
    if leaf._grad is not None:
        leaf._grad = PRIMITIVES["add"](leaf._grad, gradient)
    elif backward_pass.create_graph or gradient.__fallback__ is not None or backward_pass.sums.is_owned(key, gradient):
        leaf._grad = gradient
    else:
        leaf._grad = wrap(np.array(gradient._data, order="C"))


@method
def retain_grad(x: Tensor) -> None:
    """Make `backward()` keep the gradient of `x` in `.grad`, as it does for leaves."""
    if not x.requires_grad:
        raise GradientError("retain_grad() on a tensor that requires no gradient would never see one")
    reference = ref(x)  # the node must not keep its own output alive

    def keep(gradient: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            tensor._grad = gradient if tensor._grad is None else PRIMITIVES["add"](tensor._grad, gradient)

    if x._node is not None:
        x.register_hook(keep)


def gradients(
    roots: Tensor | Sequence[Tensor],
    targets: Sequence[Tensor],
    cotangents: Sequence[Tensor | None] | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradient of each target, None for one that no root depends on; leave `.grad` alone.

    Args:
        roots: What is differentiated: a scalar, or tensors with their cotangents.
        targets: With respect to what. The pass stops at them: a target that made another gets the direct part.
        cotangents: Weights of the roots' elements; None for ones, which only a scalar may have.
        create_graph: Record the pass, for higher derivatives.
        retain_graph: Keep the graph for another pass; as `create_graph` by default.
    """
    starts = (roots,) if isinstance(roots, Tensor) else tuple(roots)
    weights = (None,) * len(starts) if cotangents is None else tuple(cotangents)
    for root in starts:
        notify_backward_start(root)
    retain = create_graph if retain_graph is None else retain_graph
    return backpropagate(starts, targets, weights, create_graph=create_graph, retain_graph=retain)


def backpropagate(
    roots: Sequence[Tensor],
    targets: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    *,
    create_graph: bool,
    retain_graph: bool,
) -> tuple[Tensor | None, ...]:
    """Return what `gradients` returns, without calling the hooks on the start of a pass."""
    seeds = [_seed(root, weight) for root, weight in zip(roots, cotangents, strict=True)]
    with quiet(), recording(create_graph):
        keys = {gradient_key(target) for target in targets}
        backward_pass = BackwardPass(create_graph, keys, nodes_between(roots, keys))
        for root, seed in zip(roots, seeds, strict=True):
            backward_pass.deliver(root, seed)
        backward_pass.run(retain_graph)
        return tuple(backward_pass.complete(gradient_key(target)) for target in targets)
