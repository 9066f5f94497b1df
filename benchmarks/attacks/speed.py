"""How long the libraries take for the same attack on the same network: processor time of calls that take turns."""

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rows import at_least

from .digits import images
from .libraries import Call, contenders

#: Ratio to the fastest library that is to be reached: what Foolbox, ART or torchattacks needs over what we need.
_AGAIN: Final = "torch again"


@dataclass(frozen=True)
class Race:
    """One attack that every library carries out.

    Args:
        models: Names of networks.
        samples: How many images, all in one batch.
        rounds: How often each library's turn comes; the first round is not counted.
    """

    attack: str
    title: str
    target: float
    models: tuple[str, ...]
    epsilon: float
    samples: int
    rounds: int


RACES: Final = (
    Race("pgd", "PGD-40 Linf 0.1", 1.2, ("plain", "robust", "mlp"), 0.1, 500, 12),
    Race("fgsm", "FGSM Linf 0.1", 1.0, ("plain", "robust", "mlp"), 0.1, 500, 40),
    Race("deepfool", "DeepFool L2", 1.0, ("plain", "robust", "mlp"), 0.0, 50, 3),
    Race("carlini-wagner", "C&W L2 9 x 200", 1.0, ("plain", "robust"), 0.0, 50, 2),
    Race("standard", "standard ensemble Linf 0.1, 100 steps", 1.0, ("plain", "robust"), 0.1, 50, 2),
)
QUICK: Final = (
    Race("pgd", "PGD-40 Linf 0.1", 1.2, ("plain", "robust", "mlp"), 0.1, 200, 4),
    Race("fgsm", "FGSM Linf 0.1", 1.0, ("plain", "robust", "mlp"), 0.1, 200, 8),
    Race("deepfool", "DeepFool L2", 1.0, ("plain",), 0.0, 10, 2),
)


def race_rows(races: tuple[Race, ...]) -> Iterator[dict[str, Any]]:
    """Two rows a race and network, through torch and through the engine, and one of torch against itself."""
    for race in races:
        for model in race.models:
            yield from _rows(race, model)


def _rows(race: Race, model: str) -> Iterator[dict[str, Any]]:
    calls = contenders(race.attack, model, race.epsilon)
    peers = [name for name in calls if name not in ("torch", "engine")]
    seconds = _take_turns({**calls, _AGAIN: calls["torch"]}, race)
    best = {name: statistics.median(times) for name, times in seconds.items()}
    case = f"{race.title}, {model}, {race.samples} images"
    if peers:
        fastest = min(peers, key=lambda name: best[name])
        for ours in ("torch", "engine"):
            # Rounds are paired: what slows the machine down for a moment slows both.
            pairs = zip(seconds[fastest], seconds[ours], strict=True)
            ratio = statistics.median(theirs / own for theirs, own in pairs)
            others = {name: round(best[name] / best[ours], 3) for name in peers}
            yield at_least(race.target, f"{case}, {ours}", "cpu_ratio", ratio, "fastest library/ours", others)
    milliseconds = {name: round(1e3 * value, 3) for name, value in best.items() if name != _AGAIN}
    yield at_least(None, case, "call through torch", 1e3 * best["torch"], "ms", milliseconds)
    pairs = zip(seconds[_AGAIN], seconds["torch"], strict=True)
    yield at_least(None, f"{case}, A/A", "cpu_ratio", statistics.median(a / b for a, b in pairs), "torch/torch")


def _take_turns(calls: Mapping[str, Call], race: Race) -> dict[str, list[float]]:
    """Processor seconds of every call, by library; the order is drawn anew in each round."""
    x, y = (part[: race.samples] for part in images())
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffled = list(calls), random.Random(0)
    for number in range(race.rounds + 1):
        shuffled.shuffle(order)
        for name in order:
            began = time.process_time()
            calls[name](x, y)
            if number:
                seconds[name].append(time.process_time() - began)
    return seconds
