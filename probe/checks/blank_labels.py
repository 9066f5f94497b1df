"""Is the blank of a CTC loss no label of the data?"""

from collections.abc import Mapping
from typing import Any

import torch

from .check_result import CheckResult, broken, held

BLANK = "blank_is_no_label"
_CLAIM = "the index that stands for nothing is no label"


def blank_is_no_label(name: str, target: torch.Tensor | None, options: Mapping[str, Any]) -> CheckResult | None:
    """Check the targets of `ctc_loss`, `(samples, labels)` or one row of all: none may be the blank.

    The blank stands between labels (Graves et al. 2006, "Connectionist temporal classification", section 3): a label of
    the same index can never be told apart from it.

    Args:
        options: The keywords of the call, with `blank` and `target_lengths`.
    """
    if name != "ctc_loss" or target is None or not target.numel():
        return None
    blank, lengths = int(options.get("blank", 0)), options.get("target_lengths")
    counted = torch.ones_like(target, dtype=torch.bool)
    if target.dim() == 2 and lengths is not None:
        ends = torch.as_tensor(lengths, device=target.device)
        counted = torch.arange(target.shape[1], device=target.device) < ends[:, None]
    found = int(((target == blank) & counted).sum())
    if not found:
        return held(BLANK, _CLAIM, labels=float(counted.sum()))
    words = f"{found} of {int(counted.sum())} labels are {blank}, the index of the blank"
    return broken(BLANK, _CLAIM, words, labels=float(counted.sum()), found=float(found))
