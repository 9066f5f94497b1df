"""Does one term of a loss leave nothing for the others, because its targets have another scale?"""

from collections.abc import Sequence
from typing import Final

import torch

from .check_result import CheckResult, broken, held

TERMS = "terms_have_a_share_in_the_loss"
_CLAIM = "no term of the loss leaves nothing for the others"
#: Losses that compare numbers element by element, and grow with the scale of their targets.
BY_ELEMENT: Final = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
#: Times that the largest term is larger than the next one, and deviation of its targets, from which it is a matter of
#: scale. Our choice: standardised targets have a deviation of 1.
_TIMES, _LARGE = 1e3, 10.0


def terms_have_a_share(
    root: torch.Tensor, terms: Sequence[tuple[str, torch.Tensor, torch.Tensor | None]]
) -> CheckResult | None:
    """Compare the terms of a loss, each times the factor that it has there.

    Args:
        terms: Name, result and target of the loss functions that were called.

    Returns:
        None where fewer than two of the results are single numbers in the loss.
    """
    known = [(name, result, target) for name, result, target in terms if result.numel() == 1 and result.requires_grad]
    if len(known) < 2 or not root.requires_grad:
        return None
    slopes = torch.autograd.grad(
        root, [result for _, result, _ in known], torch.ones_like(root), retain_graph=True, allow_unused=True
    )
    sizes = [
        (abs(float(slope) * float(result.detach())), name, target)
        for slope, (name, result, target) in zip(slopes, known, strict=True)
        if slope is not None
    ]
    if len(sizes) < 2:
        return None
    (largest, name, target), (second, other, _) = sorted(sizes, key=lambda size: size[0], reverse=True)[:2]
    spread = float(target.detach().double().std()) if target is not None and target.numel() > 1 else 0.0
    numbers = {"largest": largest, "next": second, "deviation": spread}
    if name not in BY_ELEMENT or not largest > _TIMES * second or not spread > _LARGE:
        return held(TERMS, _CLAIM, subject="", **numbers)
    words = (
        f"{name} makes {largest:.4g} of the loss and {other} {second:.4g}; the targets of {name} have a deviation of "
        f"{spread:.4g}"
    )
    return broken(TERMS, _CLAIM, words, subject=name, **numbers)
