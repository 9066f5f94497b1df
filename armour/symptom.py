"""One sign that a robust accuracy is too good to be true."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symptom:
    """One indicator that a robust accuracy is too good to be true.

    Args:
        name: Of gradients `zero-gradient`, `gradient-mismatch`, `unbounded-attack`, `flat-loss` or
            `black-box-stronger`; of answers `logit-scale`, `randomness`, `batch-dependence` or `state`; of predictors
            with a budget `queries-exhausted`.
        value: What was measured.
        explanation: What it means, and what to run next.
    """

    name: str
    value: float
    explanation: str
