"""Certificates as outcomes, which stand below the attacks' own on one chart."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from ...storage import Json, Outcome
from .certify import Certificate
from .smoothing import Smoothed


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
