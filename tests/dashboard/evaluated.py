"""An evaluation with outcomes of every kind, as `armour` writes them."""

import base64
import math

import numpy as np
from mindscope.storage import Outcome, Run, Store

EPSILONS = (0.05, 0.1, 0.2)
EXPLANATION = "a search that sees no gradients defeats samples that PGD does not"


def gallery(epsilon: float, seed: int = 0) -> list[dict[str, object]]:
    """Three examples of 8 x 8 grey pixels, their true change exactly `epsilon` in every pixel."""
    random = np.random.default_rng(seed)
    found = []
    for sample in range(3):
        clean = random.integers(60, 190, (1, 8, 8), dtype=np.uint8)
        change = np.where(random.random((1, 8, 8)) < 0.5, -127, 127).astype(np.int8)
        found.append(
            {
                "sample": 10 + sample,
                "label": 3,
                "clean_class": 3,
                "adversarial_class": 5 + sample,
                "clean_confidence": 0.991,
                "adversarial_confidence": 0.872,
                "distance": epsilon,
                "shape": [1, 8, 8],
                "clean": base64.b64encode(clean.tobytes()).decode(),
                "change": base64.b64encode(change.tobytes()).decode(),
                "scale": epsilon,
            }
        )
    return found


def _attack(name: str, epsilon: float, accuracy: float) -> Outcome:
    details = {"kind": "attack", "bounds": [0.0, 1.0], "queries": 40.0, "gradient_calls": 40.0, "seed": 7}
    if epsilon:
        strength = 1 - accuracy
        metrics = {"MR": strength, "ACAC": 0.8, "ACTC": 0.1, "ALDp": epsilon * 3, "ASS": 0.9 - epsilon, "NTE": 0.4}
        details |= {"metrics": metrics, "gallery": gallery(epsilon)}
    return Outcome(name, "linf", epsilon, accuracy, 256, epsilon * 0.8 if epsilon else math.nan, details)


def attacks() -> list[Outcome]:
    """Two attacks, their worst case with a verdict on it, and a certificate below."""
    pgd, square = (0.96, 0.7, 0.42, 0.08), (0.96, 0.75, 0.40, 0.12)
    budgets = (0.0, *EPSILONS)
    found = [_attack("pgd", epsilon, left) for epsilon, left in zip(budgets, pgd, strict=True)]
    found += [_attack("square", epsilon, left) for epsilon, left in zip(budgets, square, strict=True)]
    verdict = [{"name": "black-box-stronger", "value": 0.02, "explanation": EXPLANATION}]
    for epsilon, left in zip(budgets, (0.96, 0.69, 0.37, 0.05), strict=True):
        said = {"kind": "worst-case", "attacks": ["pgd", "square"], "masking": ["black-box-stronger"], "gap": 0.05}
        found.append(Outcome("worst-case", "linf", epsilon, left, 256, math.nan, {**said, "verdict": verdict}))
    for epsilon, certified_outcome in zip(EPSILONS, (0.61, 0.2, 0.0), strict=True):
        found.append(
            Outcome("certified crown", "linf", epsilon, certified_outcome, 256, math.nan, {"kind": "certificate"})
        )
    return found


def privacy() -> list[Outcome]:
    """What was spent, and who is recognised."""
    steps = list(range(100, 1001, 100))
    spent = {"kind": "privacy", "accountant": "rdp", "delta": 1e-5, "sample_rate": 0.01, "noise_multiplier": 1.1}
    spent |= {"steps": steps, "epsilons": [0.1 * step**0.5 for step in steps]}
    rates = np.concatenate([[0], np.geomspace(1e-3, 1, 50)])
    lira = {"kind": "membership", "auc": 0.71, "advantage": 0.3, "tpr_at": {"0.001": 0.043, "0.01": 0.11}}
    lira |= {"false_positive_rates": rates.tolist(), "true_positive_rates": (rates**0.5).tolist()}
    return [
        Outcome("privacy rdp", "", spent["epsilons"][-1], math.nan, 1000, math.nan, spent),
        Outcome("membership lira", "", 0.0, math.nan, 500, math.nan, lira),
    ]


def behaviour() -> list[Outcome]:
    """Fuzzing, faults and drift."""
    before = {"neuron": 0.5, "k_sections": 0.2, "boundary": 0.0, "strong_activation": 0.0, "top_k": 0.3}
    after = {name: min(1.0, share + 0.25) for name, share in before.items()}
    curve = [{"round": at, "inputs": 20 * at, "failures": at, "neuron": 0.5 + at / 40} for at in range(10)]
    fuzz = {"kind": "coverage", "before": before, "after": after, "curve": curve, "failures": 9, "inputs": 200}
    drift = {"kind": "drift", "statistic": 0.4, "p_value": 0.001, "level": 0.05, "has_drifted": True}
    drift |= {"features": [0.5, 0.001, 0.2, 0.9, 0.0]}
    faults = [
        Outcome(f"fault {fault} weights", site, 4.0, left, 256, math.nan, {"kind": "fault", "clean_accuracy": 0.96})
        for fault, site, left in (("bit_flip", "head", 0.31), ("nan", "", 0.1), ("zero", "head", 0.95))
    ]
    return [
        Outcome("fuzz", "", 0.0, 0.92, 200, math.nan, fuzz),
        *faults,
        Outcome("drift ks", "", 0.0, math.nan, 300, math.nan, drift),
    ]


def metrics() -> list[Outcome]:
    """Single numbers of the model, of a defence, of a defence against queries and of a detector."""
    clever = {"kind": "metric", "least": 0.5, "mean": 1.5, "batches": 50, "points": 100, "seed": 0}
    quality = {"accuracy_variance": -0.03, "rectify_ratio": 0.01, "sacrifice_ratio": 0.04}
    quality |= {"confidence_variance": 0.08, "output_stability": 0.02}
    queries = {"query_count_variance": 0.12, "success_variance": 0.5, "false_positive_rate": 0.04}
    queries |= {"response_time_variance": 1.5, "attack": "square", "allowed": 500, "seed": 0}
    detector = {"auc": 0.93, "detection_rate": 0.8, "false_positive_rate": 0.06, "allowed_false_positive_rate": 0.05}
    return [
        Outcome("clever", "l2", 2.0, math.nan, 20, 1.0, clever),
        Outcome("empirical robustness", "l2", 0.0, math.nan, 20, math.nan, _metric(value=0.043, attack="deepfool")),
        Outcome("defence quality", "", 0.0, 0.93, 256, math.nan, _metric(**quality)),
        Outcome("query defence", "linf", 0.1, 0.7, 256, math.nan, _metric(**queries)),
        Outcome("detector feature-squeezing", "linf", 0.1, math.nan, 256, math.nan, _metric(**detector)),
    ]


def _metric(**numbers: object) -> dict[str, object]:
    return {"kind": "metric", **numbers}


def write_everything(store: Store, parent: Run) -> Run:
    """Writes outcomes of every kind about a run."""
    writer = store.begin_run(f"{parent.name} measured", kind="evaluation", parent=parent.id)
    writer.write_outcomes([*attacks(), *privacy(), *behaviour(), *metrics()])
    writer.close("finished")
    return writer.run
