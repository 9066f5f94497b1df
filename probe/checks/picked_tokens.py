"""Tokens whose log-probabilities a loss picks from a network's answers, as those of preferences and policies do."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import torch

from .loss_graph import SAME_VALUES, origin_of

#: Tensors of tokens that are kept of one loss, their elements, and nodes between a softmax and an output. Our choice.
_MOST, _MOST_ELEMENTS, _NEAR = 4, 1 << 20, 4
#: The last axis, as it is counted from behind; torch keeps it as a number without a sign.
_LAST: Final = (-1, (1 << 64) - 1)
#: How the names of nodes begin that scale or mask scores on their way to a softmax.
_PASSED: Final = (*SAME_VALUES, "Mul", "Div", "Add", "Sub", "MaskedFill", "Where", "Slice", "Clone")


def picked_tokens(nodes: Sequence[Any], outputs: Collection[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the class indices `(...)` for which a loss picks log-probabilities `(..., classes)` of an output.

    A negative log-likelihood is such a loss as the cross entropy is, whether it is written with `gather` or as the
    `log_prob` of a distribution.

    Args:
        nodes: Those between the loss and the outputs.
        outputs: What networks have answered.
    """
    made = {origin_of(output.grad_fn) for output in outputs if output.grad_fn is not None}
    picks = [node for node in nodes if node.name().startswith("GatherBackward")]
    found = 0
    for node in picks:
        index = node._saved_index
        if found >= _MOST or index.shape[-1] != 1 or not 0 < index.numel() <= _MOST_ELEMENTS:
            continue
        if int(node._saved_dim) in (index.dim() - 1, *_LAST) and _is_of(node.next_functions[0][0], made):
            found += 1
            yield index.detach().squeeze(-1)


def _is_of(node: Any, made: Collection[Any]) -> bool:
    """Return whether a node makes log-probabilities of what one of these nodes has made."""
    node = _passed(origin_of(node), "Expand")
    if node is None:
        return False
    if node.name().startswith("SubBackward"):  # scores less the logarithm of the sum of their exponentials
        inner = [origin_of(before) for before, _ in node.next_functions]
        if len(inner) != 2 or inner[1] is None or not inner[1].name().startswith("Logsumexp"):
            return False
        node = inner[0]
    elif node.name().startswith("LogSoftmax"):
        node = origin_of(node.next_functions[0][0])
    else:
        return False
    for _ in range(_NEAR):
        if node is None or node in made:
            return node is not None
        if not node.name().startswith(_PASSED):
            return False
        node = origin_of(next((before for before, _ in node.next_functions if before is not None), None))
    return node in made


def _passed(node: Any, name: str) -> Any:
    """Return the node, or the one before it if its name begins so."""
    return origin_of(node.next_functions[0][0]) if node is not None and node.name().startswith(name) else node
