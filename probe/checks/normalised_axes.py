"""Are the vectors that a table of scores compares normalised each by itself? Read from the graph of a loss."""

from collections.abc import Sequence
from typing import Any, Final

from .check_result import CheckResult, broken, held
from .loss_graph import SAME_VALUES, Node, plain_axis

NORMALISED: Final = "vectors_are_normalised_one_by_one"
_CLAIM = "the scores of pairs compare vectors that are normalised each by itself"
#: Steps between a quotient and the norm that it divides by, and views of a factor. Our choice.
_A_FEW: Final = 6
_TURNS: Final = ("TBackward", "Transpose", "Permute", "Adjoint")


def vectors_are_normalised_one_by_one(nodes: Sequence[Node]) -> CheckResult | None:
    """Check products `u @ v.t()` of `(samples, features)`: neither `u` nor `v` may be divided by norms over samples.

    The product `u.t() @ v` of features, as the cross-correlation of Barlow Twins (Zbontar et al. 2021,
    arXiv:2103.03230, equation 2), is normalised over the samples by design.

    Returns:
        None where no such product of normalised factors is found.
    """
    found = [axes for node in nodes if node.name().startswith("Mm") and (axes := _axes(node)) is not None]
    if not found:
        return None
    if not any(0 in axes for axes in found):
        return held(NORMALISED, _CLAIM)
    words = (
        "the loss multiplies u by the transpose of v, and divides them by norms over axis 0, the samples: each feature "
        "has length one over the batch, and no sample has"
    )
    return broken(NORMALISED, _CLAIM, words)


def _axes(product: Node) -> tuple[int, ...] | None:
    """Return over which axes the factors of `u @ v.t()` are normalised; None for other products, or if none is."""
    if len(product.next_functions) != 2:
        return None
    (left, is_left_turned), (right, is_right_turned) = (_factor(before) for before, _ in product.next_functions)
    if is_left_turned or not is_right_turned:
        return None
    axes = tuple(axis for axis in map(_axis_of_norm, (left, right)) if axis is not None)
    return axes or None


def _factor(node: Node) -> tuple[Node, bool]:
    """Return the node that made the values of a factor, scaled or not, and whether it was transposed on the way."""
    is_turned = False
    for _ in range(_A_FEW):
        if node is None or not node.next_functions:
            break
        name, given = node.name(), [before for before, _ in node.next_functions]
        is_scaled = name.startswith(("Mul", "Div")) and _axis_of_norm(node) is None and given.count(None) == 1
        if not is_scaled and not name.startswith((*SAME_VALUES, "Cat")):
            break
        is_turned ^= name.startswith(_TURNS)
        node = next((before for before in given if before is not None), None)
    return node, is_turned


def _axis_of_norm(node: Node) -> int | None:
    """Return the axis of the norm by which a quotient of a table divides; None for anything else."""
    if node is None or not node.name().startswith("Div") or len(node.next_functions) != 2:
        return None
    below: Any = node.next_functions[1][0]
    for _ in range(_A_FEW):
        if below is None:
            return None
        if below.name().startswith(("LinalgVectorNorm", "Norm")):
            axes = getattr(below, "_saved_dim", None)
            dims = below._saved_self.dim() if getattr(below, "_saved_self", None) is not None else 0
            return plain_axis(int(axes[0]), dims) if axes is not None and len(axes) == 1 and dims == 2 else None
        below = below.next_functions[0][0] if below.next_functions else None
    return None
