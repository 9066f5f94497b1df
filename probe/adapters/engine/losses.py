"""Which loss of the engine made the scalar that a backward pass starts from, read from the tape behind it."""

from collections.abc import Callable, Mapping
from typing import Any

from ....framework.tensor import Tensor

#: Operations between the loss and what tells its kind; a farther one belongs to the network.
_FARTHEST = 24


def loss_of(root: Tensor) -> tuple[str, Tensor, tuple[Any, ...]] | None:
    """The loss that made a scalar: its name, what it was given, and the inputs of the operation that tells it."""
    waiting = [root._node]
    seen = 0
    while waiting and seen < _FARTHEST:
        node = waiting.pop(0)
        if node is None or node.inputs is None or node.is_packed:
            continue
        seen += 1
        given = _GIVEN.get(node.primitive.name)
        if given is not None:
            name, tensor = given(node)
            if isinstance(tensor, Tensor):
                return name, tensor, node.inputs
        waiting += [one._node for one in node.inputs if isinstance(one, Tensor)]
    return None


def factor_of(root: Tensor) -> float | None:
    """What the loss was multiplied and divided by, as one number; None where something was added to it."""
    factor, tensor = 1.0, root
    while (node := tensor._node) is not None and node.inputs is not None and not node.is_packed:
        name, tensors = node.primitive.name, [one for one in node.inputs if isinstance(one, Tensor)]
        numbers = [float(one) for one in node.inputs if isinstance(one, int | float)]
        if name == "add":
            return None
        if name not in ("multiply", "divide") or len(tensors) != 1 or len(numbers) != 1 or tensors[0].size != 1:
            return factor
        factor = factor * numbers[0] if name == "multiply" else factor / numbers[0]
        tensor = tensors[0]
    return factor


def _of_gather(node: Any) -> tuple[str, Any]:
    source = node.inputs[0]
    before = getattr(source, "_node", None)
    if before is not None and before.primitive.name == "log_softmax" and before.inputs is not None:
        return "cross_entropy", before.inputs[0]  # the softmax is the loss's own, or might as well be
    return "nll_loss", source


def _of_clip(node: Any) -> tuple[str, Any]:
    """Binary cross entropy cuts its logarithms at -100; the probability lies three operations behind."""
    tensor = node.inputs[0]
    for name, at in (("where", 1), ("log", 0), ("where", 1)):
        before = getattr(tensor, "_node", None)
        if before is None or before.primitive.name != name or before.inputs is None:
            return "", None
        tensor = before.inputs[at]
    return "binary_cross_entropy", tensor


#: What tells a loss, by the primitive that only it leaves so near to the end of a tape.
_GIVEN: Mapping[str, Callable[[Any], tuple[str, Any]]] = {
    "cross_entropy": lambda node: ("cross_entropy", node.inputs[0]),
    "gather_elements": _of_gather,
    "softplus": lambda node: ("binary_cross_entropy_with_logits", node.inputs[0]),
    "clip": _of_clip,
}
