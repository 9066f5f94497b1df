"""Whether a mutant is a fault: its result is worse than the original's over seeds, or it breaks an exact promise."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from scipy.special import stdtr

#: Declared before any mutant was run: a one-sided test at 5 % and at least a medium effect (Cohen 1988).
SIGNIFICANCE = 0.05
EFFECT = 0.5


@dataclass(frozen=True, slots=True)
class Harm:
    """What a mutant does to a program's result, lower being better.

    Args:
        p_value: Of Welch's test that the mutant is no worse; 0 where a run failed.
        effect: Difference of the means over the pooled standard deviation (Cohen's d), positive if worse.
        is_harmful: The mutant counts as a fault.
        reason: Why.
    """

    p_value: float
    effect: float
    is_harmful: bool
    reason: str


def harm(original: Sequence[float], mutant: Sequence[float], *, promise: str = "") -> Harm:
    """Judge a mutant by the results of the original and its own over seeds.

    Args:
        original: Results of the healthy program, all finite, two or more.
        mutant: Results of the mutant; NaN where a run failed or its result is not finite.
        promise: What the mutant breaks whatever its results; empty for nothing.

    Raises:
        ValueError: The original has fewer than two results, or one that is not finite.

    Reference:
        Welch 1947, "The generalization of Student's problem when several different population variances are involved".
    """
    if len(original) < 2 or not all(map(isfinite, original)):
        raise ValueError(
            f"harm needs two finite results of the original or more, got {list(original)}; mend the program"
        )
    if not all(map(isfinite, mutant)):
        return Harm(0.0, inf, True, "it fails, or its result is not finite")
    p_value, effect = welch(original, mutant)
    if promise:
        return Harm(p_value, effect, True, f"it breaks a promise: {promise}")
    if p_value < SIGNIFICANCE and effect >= EFFECT:
        return Harm(p_value, effect, True, "its result is worse")
    return Harm(p_value, effect, False, "its result is no worse")


def welch(original: Sequence[float], mutant: Sequence[float]) -> tuple[float, float]:
    """Return the one-sided p-value that the mutant is not greater, and Cohen's d; infinite d without any spread."""
    first, second = np.asarray(original, float), np.asarray(mutant, float)
    difference = float(second.mean() - first.mean())
    parts = [values.var(ddof=1) / len(values) if len(values) > 1 else 0.0 for values in (first, second)]
    error = sqrt(sum(parts))
    if error == 0.0:
        return (0.0, inf) if difference > 0.0 else (1.0, -inf if difference < 0.0 else 0.0)
    freedom = error**4 / sum(part**2 / (len(v) - 1) for part, v in zip(parts, (first, second), strict=True) if part)
    pooled = sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2.0)
    return float(1.0 - stdtr(freedom, difference / error)), difference / pooled
