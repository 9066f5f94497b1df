"""How far the libraries' attacks get: accuracy that is left in the worst case, and distances of nearest examples."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rows import at_most

from .digits import images
from .libraries import Call, contenders

_EPSILONS: Final = {"plain": 0.05, "robust": 0.12, "mlp": 0.05}
_POINTS: Final = 0.002  # 0.2 points of accuracy above the best library's are allowed
_NEAREST: Final = {"brendel-bethge": 1.005, "carlini-wagner": 1.03}  # medians over the best library's


def strength_rows(quick: bool) -> Iterator[dict[str, Any]]:
    """One row a network and question."""
    x, y = images()
    few = 40 if quick else 100
    for model in ("plain",) if quick else ("plain", "robust", "mlp"):
        yield from _worst_case(model, x[:few], y[:few])
        yield from _nearest(model, x[:few], y[:few])
        yield from _deepfool(model, x[:few], y[:few])


def _worst_case(model: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """The standard ensemble against whatever of a library's leaves least, sample by sample."""
    epsilon = _EPSILONS[model]
    found: dict[str, NDArray[np.bool_]] = {}
    for attack in ("pgd", "fgsm", "standard"):
        for name, call in contenders(attack, model, epsilon).items():
            left = call(x, y)[1]
            if name not in ("torch", "engine"):
                found[name] = found.get(name, np.ones(len(x), np.bool_)) & left
            elif attack == "standard":
                found[name] = left
    peers = {name: float(left.mean()) for name, left in found.items() if name not in ("torch", "engine")}
    best = min(peers.values(), default=None)
    for ours in ("torch", "engine"):
        case = f"{model}, Linf {epsilon:g}, {ours}"
        target = None if best is None else round(best + _POINTS, 5)
        yield at_most(target, case, "worst-case accuracy", float(found[ours].mean()), "share", peers)


def _nearest(model: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """Median L2 distance of Brendel-Bethge's attack and of C&W's, each against the nearest of both by any library."""
    measured = {attack: _measured(contenders(attack, model), x, y) for attack in _NEAREST}
    best = min((value for medians, _ in measured.values() for value in _theirs(medians).values()), default=None)
    for attack, factor in _NEAREST.items():
        medians, reached = measured[attack]
        target = None if best is None else round(best * factor, 5)
        for ours in ("torch", "engine"):
            yield at_most(
                target, f"{model}, {attack}, {ours}", "median L2", medians[ours], "distance", _theirs(medians)
            )
            yield at_most(0.0, f"{model}, {attack}, {ours}", "failures", 1.0 - reached[ours], "share")


def _deepfool(model: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """Images that DeepFool leaves as they were classified, though every one of them touches the box."""
    medians, reached = _measured(contenders("deepfool", model), x, y)
    peers = {name: round(1.0 - share, 5) for name, share in reached.items() if name not in ("torch", "engine")}
    for ours in ("torch", "engine"):
        case = f"{model}, DeepFool L2, {ours}"
        yield at_most(0.0, case, "failures on images that touch the box", 1.0 - reached[ours], "share", peers)
        yield at_most(None, case, "median L2", medians[ours], "distance", _theirs(medians))


def _theirs(values: Mapping[str, float]) -> dict[str, float]:
    """Without ours, and without those that fail on half of the images and so have no median."""
    return {name: value for name, value in values.items() if name not in ("torch", "engine") and np.isfinite(value)}


def _measured(
    calls: Mapping[str, Call], x: NDArray[np.float32], y: NDArray[np.int64]
) -> tuple[dict[str, float], dict[str, float]]:
    """By library the median distance, infinite where the attack failed, and the share of examples that succeed."""
    medians, reached = {}, {}
    for name, call in calls.items():
        adversarials, still = call(x, y)
        distances = np.linalg.norm((adversarials - x).reshape(len(x), -1).astype(np.float64), axis=1)
        medians[name] = round(float(np.median(np.where(still, np.inf, distances))), 6)
        reached[name] = float(np.mean(~still))
    return medians, reached
