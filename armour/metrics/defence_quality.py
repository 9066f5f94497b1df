"""The effect of a defence on a model's answers to clean inputs: what it rectifies, sacrifices and shifts."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInput
from ..row_statistics import jensen_shannon


@dataclass(frozen=True, slots=True)
class DefenceQuality:
    """A defended model compared with the undefended one on the same inputs.

    Args:
        accuracy_variance: CAV: accuracy with the defence minus accuracy without.
        rectify_ratio: CRR: share of all inputs that the defence makes right.
        sacrifice_ratio: CSR: share of all inputs that it makes wrong; CAV is CRR minus CSR.
        confidence_variance: CCV: mean absolute change of the confidence where both are right; NaN where none is.
        output_stability: COS: mean Jensen-Shannon divergence of the outputs there, 0 to log 2; the lower the stabler.

    Reference:
        Ling et al. 2019, "DEEPSEC: a uniform platform for security analysis of deep learning model", section III-B.
    """

    accuracy_variance: float
    rectify_ratio: float
    sacrifice_ratio: float
    confidence_variance: float
    output_stability: float


def defence_quality(raw: ArrayLike, defended: ArrayLike, y: ArrayLike) -> DefenceQuality:
    """Measure the five numbers of a defence.

    Args:
        raw: `(n, classes)` probabilities without the defence.
        defended: The same with it.
        y: `(n,)` true classes.

    Raises:
        InvalidInput: The shapes do not fit, or rows are no probabilities.
    """
    p, q, labels = np.asarray(raw, np.float64), np.asarray(defended, np.float64), np.asarray(y)
    if p.ndim != 2 or p.shape != q.shape or labels.shape != p.shape[:1] or not len(p):
        raise InvalidInput(
            f"raw, defended and y expect (n, classes) twice and (n,), got {p.shape}, {q.shape}, {labels.shape}"
        )
    for values in (p, q):
        if not ((values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=1e-4)):
            raise InvalidInput("raw and defended expect rows of probabilities, which sum to 1; apply softmax to logits")
    was_right, is_right = p.argmax(axis=1) == labels, q.argmax(axis=1) == labels
    both = was_right & is_right
    return DefenceQuality(
        accuracy_variance=float(is_right.mean() - was_right.mean()),
        rectify_ratio=float((is_right & ~was_right).mean()),
        sacrifice_ratio=float((was_right & ~is_right).mean()),
        confidence_variance=float(np.abs(p[both].max(axis=1) - q[both].max(axis=1)).mean()) if both.any() else math.nan,
        output_stability=float(jensen_shannon(p[both], q[both]).mean()) if both.any() else math.nan,
    )
