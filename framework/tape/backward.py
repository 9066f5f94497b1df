"""The ways to ask for gradients: into `.grad` of the leaves, or of chosen targets with `.grad` left alone."""

from collections.abc import Sequence
from weakref import ref

import numpy as np

from ..context import CAPTURE, quiet, recording
from ..errors import GradientError, ShapeError
from ..operators import METHODS
from ..primitive import PRIMITIVES
from ..tensor import Tensor, method, wrap
from .hooks import tell_start
from .places import Place, leading_to, place_of
from .way_back import WayBack

__all__ = ["backward", "gradients", "pull"]


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


@method
def backward(root: Tensor, gradient: Tensor | None = None, *, retain_graph: bool, create_graph: bool) -> None:
    """Nothing; gradients of `root` are added to `.grad` of every leaf that requires one."""
    seed = _seed(root, gradient)
    tell_start(root)
    with quiet(), recording(create_graph):
        way = WayBack(create_graph)
        way.deliver(root, seed)
        way.run(keep=retain_graph)
        for place in way.leaves:
            _accumulate(way, place)


def _accumulate(way: WayBack, place: Place) -> None:
    """Nothing; one finished gradient is added to the `.grad` of its leaf, whose array nobody else holds."""
    leaf, gradient = way.leaves[place], way.complete(place)
    if gradient is None:
        return
    capture = CAPTURE.get()
    if capture is not None:
        capture.touch_grad(leaf)
    if leaf._grad is not None:
        leaf._grad = PRIMITIVES["add"](leaf._grad, gradient)
    elif way.create_graph or gradient.__fallback__ is not None or way.sums.is_owned(place, gradient):
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
        tell_start(root)
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
        places = {place_of(target) for target in targets}
        way = WayBack(create_graph, places, leading_to(roots, places))
        for root, seed in zip(roots, seeds, strict=True):
            way.deliver(root, seed)
        way.run(keep=retain_graph)
        return tuple(way.complete(place_of(target)) for target in targets)
