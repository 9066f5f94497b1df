"""Certificates, privacy, reliability and drift as outcomes, so that one store and one page hold all that was found."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..storage import Json, Outcome
from .certificates import Certificate, Smoothed
from .drift import Drift
from .fuzz import Corpus, Coverage, FaultOutcome
from .privacy import Accountant, Leakage, Phase, epsilon

_POINTS: Final = 200  # of a curve; a page has no more pixels for it
_FEATURES: Final = 256


def certificate_outcomes(certificate: Certificate) -> list[Outcome]:
    """One outcome a budget: `certified ibp` or `certified crown`, a lower bound of every attack's accuracy."""
    details: dict[str, Json] = {"kind": "certificate", "method": certificate.method}
    return [
        Outcome(
            f"certified {certificate.method}", certificate.norm, budget, float(share), certificate.margins.shape[1],
            details=details,
        )
        for budget, share in zip(certificate.epsilons, certificate.accuracy, strict=True)
    ]  # fmt: skip


def smoothing_outcomes(
    smoothed: Smoothed, y: ArrayLike, epsilons: Sequence[float], *, sigma: float, trials: int, alpha: float
) -> list[Outcome]:
    """One outcome an L2 radius: `certified smoothing`, the accuracy that the smoothed classifier surely keeps."""
    details: dict[str, Json] = {"method": "smoothing", "sigma": sigma, "trials": trials, "alpha": alpha}
    return [
        Outcome(
            "certified smoothing", "l2", float(radius), smoothed.accuracy(y, radius), len(smoothed.classes),
            details={"kind": "certificate", **details},
        )
        for radius in epsilons
    ]  # fmt: skip


def privacy_outcome(phase: Phase, delta: float, accountant: Accountant = "rdp") -> Outcome:
    """What a private training spends after each step, in at most 200 points; its epsilon is that of the last one."""
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


def membership_outcome(attack: str, leakage: Leakage, members: int, others: int) -> Outcome:
    """How well a membership attack tells members from others, with its curve in at most 400 points.

    Args:
        attack: `threshold`, `shadow` or `lira`.
        members: How many samples of the training set were judged.
        others: How many that the model never saw.
    """
    x, y = leakage.false_positive_rates, leakage.true_positive_rates
    # Half of the points are dense at few false alarms, where the curve is read, half even.
    floor = max(1.0 / max(others, 1), 1e-6)
    wanted = np.concatenate([np.geomspace(floor, 1.0, _POINTS), np.linspace(0.0, 1.0, _POINTS - 2)])
    kept = np.unique(np.concatenate([[0, len(x) - 1], np.searchsorted(x, wanted, side="right") - 1]))
    details: dict[str, Json] = {
        "kind": "membership",
        "auc": leakage.auc,
        "advantage": leakage.advantage,
        "tpr_at": {"0.001": leakage.tpr_at(0.001), "0.01": leakage.tpr_at(0.01)},
        "false_positive_rates": [float(value) for value in x[kept]],
        "true_positive_rates": [float(value) for value in y[kept]],
        "members": members,
        "others": others,
    }
    return Outcome(f"membership {attack}", "", 0.0, math.nan, members + others, details=details)


def coverage_outcome(before: Coverage, after: Coverage, corpus: Corpus, seeds: int, curve: Sequence[Json]) -> Outcome:
    """What fuzzing covers beyond its seeds; accuracy is the share of the corpus that keeps its seed's label.

    Args:
        curve: One entry a round, as far as it was watched.
    """
    details: dict[str, Json] = {
        "kind": "coverage",
        "before": _shares(before),
        "after": _shares(after),
        "rounds": corpus.rounds,
        "inputs": len(corpus.inputs),
        "seeds": seeds,
        "failures": int(corpus.failed.sum()),
        "curve": list(curve),
    }
    return Outcome("fuzz", "", 0.0, float(np.mean(~corpus.failed)), len(corpus.inputs), details=details)


def fault_outcome(found: FaultOutcome, samples: int) -> Outcome:
    """The accuracy that is left under one fault; the norm's place names the site, epsilon's the broken elements."""
    details: dict[str, Json] = {
        "kind": "fault",
        "fault": found.fault,
        "where": found.where,
        "site": found.site,
        "elements": found.elements,
        "clean_accuracy": found.clean_accuracy,
        "drop": found.drop,
    }
    name = f"fault {found.fault} {found.where}"
    return Outcome(name, found.site, float(found.elements), found.accuracy, samples, details=details)


def drift_outcome(test: str, drift: Drift, *, level: float, reference: int, current: int) -> Outcome:
    """What a test for drift found, with the p-values of at most 256 features.

    Args:
        test: `ks` or `mmd`.
        reference: Samples from when all was well.
        current: Samples of now.
    """
    details: dict[str, Json] = {
        "kind": "drift",
        "statistic": drift.statistic,
        "p_value": drift.p_value,
        "level": level,
        "has_drifted": drift.has_drifted,
        "features": [float(value) for value in drift.features[:_FEATURES]],
        "reference": reference,
        "current": current,
    }
    return Outcome(f"drift {test}", "", 0.0, math.nan, current, details=details)


def _shares(coverage: Coverage) -> dict[str, Json]:
    return {name: getattr(coverage, name) for name in Coverage.__slots__}
