"""Outcomes of membership attacks and of private training."""

import math
from typing import Final

import numpy as np

from ...storage import Json, Outcome
from .membership_inference import Leakage
from .privacy_accountant import Accountant, Phase, epsilon

_CONFIDENCE: Final = 0.95  # of all intervals
_POINTS: Final = 200  # of a curve: a page has no more pixels


def privacy_outcome(phase: Phase, delta: float, accountant: Accountant = "rdp") -> Outcome:
    """Return the outcome of a private training: epsilon by step in at most 200 points; its epsilon is the last."""
    steps = np.unique(np.linspace(1, max(phase.steps, 1), min(_POINTS, max(phase.steps, 1))).astype(np.int64))
    spent = [
        epsilon([Phase(phase.noise_multiplier, phase.sample_rate, int(step))], delta, accountant) for step in steps
    ]
    details: dict[str, Json] = {
        "kind": "privacy",
        "accountant": accountant,
        "delta": delta,
        "sample_rate": phase.sample_rate,
        "noise_multiplier": phase.noise_multiplier,
        "steps": [int(step) for step in steps],
        "epsilons": [float(value) for value in spent],
    }
    return Outcome(f"privacy {accountant}", "", float(spent[-1]), math.nan, 0, details=details)


def membership_outcome(attack: str, leakage: Leakage) -> Outcome:
    """Return the outcome of a membership attack, with its curve in at most 400 points.

    Args:
        attack: `threshold`, `shadow` or `lira`.
    """
    x, y = leakage.false_positive_rates, leakage.true_positive_rates
    # Half of the points are dense at few false alarms, where readers look; half are even.
    floor = max(leakage.smallest_rate, 1e-6)
    wanted = np.concatenate([np.geomspace(floor, 1.0, _POINTS), np.linspace(0.0, 1.0, _POINTS - 2)])
    chosen = np.unique(np.concatenate([[0, len(x) - 1], np.searchsorted(x, wanted, side="right") - 1]))
    rates = leakage.reported_rates()
    details: dict[str, Json] = {
        "kind": "membership",
        "auc": leakage.auc,
        "advantage": leakage.advantage,
        "tpr_at": {f"{rate:g}": leakage.tpr_at(rate) for rate in rates},
        "confidence": _CONFIDENCE,
        "auc_interval": list(leakage.auc_interval(_CONFIDENCE)),
        "advantage_interval": list(leakage.advantage_interval(_CONFIDENCE)),
        "tpr_intervals": {f"{rate:g}": list(leakage.tpr_interval(rate, _CONFIDENCE)) for rate in rates},
        "smallest_rate": leakage.smallest_rate,
        "false_positive_rates": [float(value) for value in x[chosen]],
        "true_positive_rates": [float(value) for value in y[chosen]],
        "members": leakage.members,
        "others": leakage.others,
    }
    return Outcome(f"membership {attack}", "", 0.0, math.nan, leakage.members + leakage.others, details=details)
