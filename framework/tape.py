"""Reverse mode: from a result back through the recorded nodes to the tensors it was made of.

Every node has a number, larger than those of the nodes before it. The way back takes the pending node of the largest
number: all who used its outputs have been visited then, so its gradient is complete. The rules are primitives on
tensors; with `create_graph` they are recorded like any others, which is all that derivatives of higher order need.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias
from weakref import ref

import numpy as np

from .context import CAPTURE, PULLING, quiet, recording
from .errors import GradientError, ShapeError
from .hooks import BACKWARD_START, Hooks, call_hooks
from .operators import METHODS
from .primitive import PRIMITIVES, Node
from .tensor import Tensor, method, wrap

__all__ = ["backward", "gradients", "pull"]

# What a gradient is collected under: a leaf itself (by identity), or an output of a node.
_Key: TypeAlias = int | tuple[int, int]


class _Sums:
    """Gradients collected so far, by key; knows which arrays nobody else holds, which may be added to in place."""

    __slots__ = ("_create_graph", "_owned", "totals")

    def __init__(self, create_graph: bool) -> None:
        self.totals: dict[_Key, Tensor] = {}
        self._owned: set[_Key] = set()
        self._create_graph = create_graph

    def add(self, key: _Key, gradient: Tensor, is_fresh: bool) -> None:
        """Nothing; the gradient is added to what is collected under the key."""
        total = self.totals.get(key)
        if total is None:
            self.totals[key] = gradient
            if is_fresh:
                self._owned.add(key)
        elif self._create_graph:
            self.totals[key] = PRIMITIVES["add"](total, gradient)
        elif key in self._owned and gradient.__fallback__ is None:
            np.add(total._data, gradient._data, out=total._data)
        else:
            self.totals[key] = PRIMITIVES["add"](total, gradient)
            if self.totals[key].__fallback__ is None:
                self._owned.add(key)

    def is_owned(self, key: _Key, gradient: Tensor) -> bool:
        """Whether the finished gradient is an array of its own, in C order."""
        return key in self._owned and gradient is self.totals[key] and gradient._data.flags.c_contiguous


def _key(x: Tensor) -> _Key:
    return id(x) if x._node is None else (x._node.order, x._index)


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient at the start of the way back."""
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


def _apply(hooks: Hooks, gradient: Tensor) -> Tensor:
    if CAPTURE.get() is not None:  # the hooks are called whenever the graph runs
        return PRIMITIVES["show"](gradient, hook=lambda given: (_apply(hooks, given[0]),))
    for number in tuple(hooks):
        hook = hooks.get(number)
        replaced = hook(gradient) if hook is not None else None
        if replaced is not None:
            gradient = replaced
    return gradient


def _leading_to(roots: Sequence[Tensor], targets: set[_Key]) -> set[Node]:
    """The nodes between the targets and the roots: the way back need visit no others."""
    seen: set[Node] = set()
    stack = [root._node for root in roots if root._node is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        inputs = node.inputs if node.inputs is not None else node.saved_inputs()  # which says why they are gone
        parents = (x for x in inputs if isinstance(x, Tensor) and _key(x) not in targets)
        stack.extend(x._node for x in parents if x._node is not None)
    needed: set[Node] = set()
    for node in sorted(seen, reverse=True):
        for x in node.inputs or ():
            if isinstance(x, Tensor) and x.requires_grad and (x._node in needed or _key(x) in targets):
                needed.add(node)
                break
    return needed


def _is_fresh(gradient: Tensor, given: Sequence[Tensor | None], inputs: Sequence[Any]) -> bool:
    """Whether a rule made this array just now, so that no one else holds it: not passed on, not saved, not a view."""
    if gradient.__fallback__ is not None:
        return False
    array = gradient._data
    if array.base is not None or not array.flags.writeable:
        return False
    return id(array) not in [id(x._data) for x in (*given, *inputs) if isinstance(x, Tensor)]


class _WayBack:
    """One backward pass."""

    __slots__ = ("_heap", "_needed", "_pending", "_targets", "create_graph", "leaves", "sums")

    def __init__(self, create_graph: bool, targets: set[_Key] | None, needed: set[Node] | None) -> None:
        self.create_graph = create_graph
        self.sums = _Sums(create_graph)
        self.leaves: dict[_Key, Tensor] = {}
        self._heap: list[tuple[int, Node]] = []
        self._pending: set[int] = set()
        self._targets = targets
        self._needed = needed

    def deliver(self, x: Tensor, gradient: Tensor, is_fresh: bool = False) -> None:
        """Nothing; the gradient is collected, and the node that made `x` waits for its turn."""
        node = x._node
        key: _Key = id(x) if node is None else (node.order, x._index)
        self.sums.add(key, gradient, is_fresh)
        if node is None or (self._targets is not None and key in self._targets):
            self.leaves[key] = x
        elif node.order not in self._pending:
            self._pending.add(node.order)
            heappush(self._heap, (-node.order, node))

    def wants(self, x: Any) -> bool:
        """Whether a gradient of this argument is needed."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        return self._targets is None or x._node in self._needed or _key(x) in self._targets  # type: ignore[operator]

    def run(self, keep: bool) -> None:
        """Nothing; every pending node is pulled back, and freed unless it is to be kept."""
        token = PULLING.set(True)
        try:
            while self._heap:
                node = heappop(self._heap)[1]
                self._visit(node)
                if not keep:
                    node.free()
        finally:
            PULLING.reset(token)

    def _visit(self, node: Node) -> None:
        totals = self.sums.totals
        size = node.size
        if size == 1:
            collected = [totals.pop((node.order, 0), None)]
        else:
            collected = [totals.pop((node.order, index), None) for index in range(size)]
        if node.hooks:
            for index, hooks in node.hooks.items():
                gradient = collected[index]
                if gradient is not None:
                    collected[index] = _apply(hooks, gradient)
        inputs = node.saved_inputs()
        if self._targets is None:
            needs = [isinstance(x, Tensor) and x.requires_grad for x in inputs]
        else:
            needs = [self.wants(x) for x in inputs]
        g = collected[0] if size == 1 else collected
        pulled = node.primitive.pull_back(node, inputs, needs, g)
        seen = {id(node.outputs)}
        for x, need, gradient in zip(inputs, needs, pulled, strict=True):
            if need and gradient is not None:
                array: object = gradient._data if gradient.__fallback__ is None else gradient
                self.deliver(x, gradient, id(array) not in seen and _is_fresh(gradient, collected, inputs))
                seen.add(id(array))

    def complete(self, key: _Key) -> Tensor | None:
        """The finished gradient of a leaf or target, after its hooks."""
        gradient = self.sums.totals.get(key)
        if gradient is None:
            return None
        x = self.leaves[key]
        hooks = x._hooks if x._node is None else (x._node.hooks or {}).get(x._index)
        return _apply(hooks, gradient) if hooks else gradient


def _tell_start(root: Tensor) -> None:
    """Nothing; who registered a hook is told; of a pass that is being captured, whenever the graph runs."""
    capture = CAPTURE.get()
    if capture is None:
        call_hooks(BACKWARD_START, root)
    elif BACKWARD_START:
        capture.host(_tell_start_of, (root,), ())


def _tell_start_of(root: Any) -> tuple[()]:
    call_hooks(BACKWARD_START, wrap(root))
    return ()


@method
def backward(root: Tensor, gradient: Tensor | None = None, *, retain_graph: bool, create_graph: bool) -> None:
    """Nothing; gradients of `root` are added to `.grad` of every leaf that requires one."""
    seed = _seed(root, gradient)
    _tell_start(root)
    with quiet(), recording(create_graph):
        way = _WayBack(create_graph, None, None)
        way.deliver(root, seed)
        way.run(keep=retain_graph)
        for key in way.leaves:
            _accumulate(way, key)


def _accumulate(way: _WayBack, key: _Key) -> None:
    """Nothing; one finished gradient is added to the `.grad` of its leaf, whose array nobody else holds."""
    leaf, gradient = way.leaves[key], way.complete(key)
    if gradient is None:
        return
    capture = CAPTURE.get()
    if capture is not None:
        capture.touch_grad(leaf)
    if leaf._grad is not None:
        leaf._grad = PRIMITIVES["add"](leaf._grad, gradient)
    elif way.create_graph or gradient.__fallback__ is not None or way.sums.is_owned(key, gradient):
        leaf._grad = gradient
    else:
        leaf._grad = wrap(np.array(gradient._data, order="C"))


@method
def retain_grad(x: Tensor) -> None:
    """Nothing; `backward()` will keep the gradient of `x` in `.grad`, as it does for leaves."""
    if not x.requires_grad:
        raise GradientError("retain_grad() on a tensor that requires no gradient would never see one")
    place = ref(x)  # the node must not keep its own output alive

    def keep(gradient: Tensor) -> None:
        tensor = place()
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
    """The gradient of each target, None for one that no root depends on; `.grad` is left alone.

    Args:
        roots: What is differentiated: a scalar, or tensors with their cotangents.
        targets: With respect to what. The way back stops at them: a target that made another gets the direct part.
        cotangents: Weights of the roots' elements; None for ones, which only a scalar may have.
        create_graph: Record the pass, for higher derivatives.
        retain_graph: Keep the graph for another pass; as `create_graph` by default.
    """
    start = (roots,) if isinstance(roots, Tensor) else tuple(roots)
    weights = (None,) * len(start) if cotangents is None else tuple(cotangents)
    for root in start:
        _tell_start(root)
    keep = create_graph if retain_graph is None else retain_graph
    return pull(start, targets, weights, create_graph=create_graph, retain_graph=keep)


def pull(
    roots: Sequence[Tensor],
    targets: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    *,
    create_graph: bool,
    retain_graph: bool,
) -> tuple[Tensor | None, ...]:
    """What `gradients` returns; nobody is told that a backward pass starts."""
    seeds = [_seed(root, weight) for root, weight in zip(roots, cotangents, strict=True)]
    with quiet(), recording(create_graph):
        keys = {_key(target) for target in targets}
        way = _WayBack(create_graph, keys, _leading_to(roots, keys))
        for root, seed in zip(roots, seeds, strict=True):
            way.deliver(root, seed)
        way.run(keep=retain_graph)
        return tuple(way.complete(_key(target)) for target in targets)
