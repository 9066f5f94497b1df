"""Is a softmax taken over the classes that its loss chooses among? Read from the graph: its axis, and the loss's."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .check_result import CheckResult, broken, held
from .loss_graph import is_packed, plain_axis, shape_of

SOFTMAX_AXIS = "softmax_is_over_the_classes"
_CLAIM = "the softmax is taken over the classes that the loss chooses among"
_OF_LABELS = frozenset({"cross_entropy", "nll_loss"})
#: Steps between a loss and the softmax, such as a logarithm or a small number that is added.
_BETWEEN = ("LogBackward", "ClampBackward", "ClampMin", "AddBackward", "NegBackward", "ViewBackward", "UnsafeView")
_DEEPEST, _SUM_ERROR = 4, 1e-3


def softmax_is_over_the_classes(nodes: Sequence[Any], losses: Iterable[tuple[str, torch.Tensor]]) -> CheckResult | None:
    """Check the losses of class indices, sums of known shares times log-probabilities that are written out, and the
    likelihood of a mixture, whose weights are those of one axis (Bishop 1994, Mixture Density Networks, equation 22).

    Equal sizes of both axes are left out: a table of all pairs may be read along either.

    Args:
        nodes: The nodes between the loss and the models' outputs.
        losses: Names and inputs of loss functions.
    """
    found: CheckResult | None = None
    for name, given in losses:
        if name in _OF_LABELS and given.dim() > 1:
            found = _compared(given.grad_fn, tuple(given.shape), 1) or found
            if found is not None and found.outcome == "broken":
                return found
    for node in nodes:
        if is_packed(node):
            continue
        verb = "adds up" if node.name() == "LogsumexpBackward0" else "chooses among"
        for before, axis in _chosen(node):
            found = _compared(before, shape_of(before, 0), axis, verb) or found
            if found is not None and found.outcome == "broken":
                return found
    return found


def _compared(node: Any, shape: tuple[int, ...], axis: int, verb: str = "chooses among") -> CheckResult | None:
    """Return the result for values of this shape, of which a loss chooses one along the axis, or adds them up."""
    softmax = _softmax_behind(node)
    if softmax is None or not shape:
        return None
    own = shape_of(softmax, 0)
    dim = plain_axis(int(softmax._saved_dim), len(own))
    if own != shape:  # rows that were joined
        if len(shape) != 2 or axis != 1 or own[-1] != shape[1]:
            return None
        axis = len(own) - 1
    if dim == axis:
        return held(SOFTMAX_AXIS, _CLAIM)
    if own[dim] == own[axis] or own[axis] < 2:
        return None
    what = "the samples of the batch" if dim == 0 else f"{own[dim]} places"
    return broken(
        SOFTMAX_AXIS,
        _CLAIM,
        f"the softmax runs along axis {dim} of {own}, {what}, and the loss {verb} the {own[axis]} entries of "
        f"axis {axis}: the probabilities of the classes do not sum to one",
        axis=dim,
        classes=own[axis],
    )


def _softmax_behind(node: Any) -> Any | None:
    for _ in range(_DEEPEST):
        if node is None or node.name() in ("SoftmaxBackward0", "LogSoftmaxBackward0"):
            return node
        if not (node.name().startswith(_BETWEEN) or _takes_rows(node)) or not node.next_functions:
            return None
        node = next((before for before, _ in node.next_functions if before is not None), None)
    return None


def _takes_rows(node: Any) -> bool:
    """Return whether a node takes some of the rows, as where only some nodes of a graph have labels."""
    name = node.name()
    if name == "IndexBackward0":
        try:
            return len(node._saved_indices) == 1
        except RuntimeError:  # of an earlier loss of the step, whose `backward()` has freed it
            return False
    return name in ("IndexSelectBackward0", "SliceBackward0") and int(node._saved_dim) == 0


def _chosen(node: Any) -> list[tuple[Any, int]]:
    """Return what a node chooses among along which axis: one entry, or shares that sum to one along just one axis.

    A logarithm of sums adds up what it is given, as its terms are, along its axis.
    """
    name = node.name()
    if name == "LogsumexpBackward0":
        return _terms(node)
    if name == "GatherBackward0":
        dim = int(node._saved_dim)
        before = node.next_functions[0][0]
        shape = shape_of(before, 0) if before is not None else ()
        return [(before, plain_axis(dim, len(shape)))] if shape else []
    given = [before for before, _ in node.next_functions]
    if name != "MulBackward0" or len(given) != 2 or given.count(None) != 1:
        return []
    before = given[1] if given[0] is None else given[0]
    shares = node._saved_self if given[0] is None else node._saved_other
    if (
        shares is None
        or tuple(shares.shape) != shape_of(before, 0)
        or shares.dim() < 2
        or not shares.is_floating_point()
    ):
        return []
    if _softmax_behind(before) is None or bool((shares < 0).any()):
        return []
    whole = [axis for axis in range(shares.dim()) if _sums_to_one(shares, axis)]
    return [(before, whole[0])] if len(whole) == 1 else []


def _terms(total: Any) -> list[tuple[Any, int]]:
    """Return the terms of what a logarithm of sums is given, with its axis; those of another shape are left out."""
    given = total.next_functions[0][0] if total.next_functions else None
    shape = shape_of(given, 0) if given is not None else ()
    if given is None or not shape or len(total._saved_dim) != 1:
        return []
    axis = plain_axis(int(total._saved_dim[0]), len(shape))
    terms = [before for before, _ in given.next_functions] if given.name() == "AddBackward0" else [given]
    return [(term, axis) for term in terms if term is not None and shape_of(term, 0) == shape]


def _sums_to_one(shares: torch.Tensor, axis: int) -> bool:
    return bool(((shares.detach().double().sum(axis) - 1).abs() < _SUM_ERROR).all())
