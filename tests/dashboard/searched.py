"""Runs of a search whose result is known: the learning rate makes all of the difference, the seed makes none."""

import math

from mindscope.storage import Run, StepRecord, Store

RATES = (0.001, 0.01, 0.1, 1.0)
SEEDS = (0, 1, 2)
#: Whose loss is NaN.
BROKEN = (1.0, 2)


def loss_of(rate: float, seed: int) -> float:
    """What a run ends with: a valley over the rate, a little of the seed."""
    return math.nan if (rate, seed) == BROKEN else (math.log10(rate) + 2.0) ** 2 + 0.5 + 0.01 * seed


def write_search(store: Store) -> tuple[Run, ...]:
    """Writes a run for every rate and seed."""
    found = []
    for rate in RATES:
        for seed in SEEDS:
            tags = {"lr": rate, "seed": seed, "model": ("mlp", "cnn", "vit")[seed]}
            writer = store.begin_run(f"lr-{rate:g}-{seed}", tags=tags)
            loss = loss_of(rate, seed)
            writer.write(
                [StepRecord(step, step, scalars={"loss": loss, "accuracy": rate + 0.001 * seed}) for step in range(3)]
            )
            writer.close()
            found.append(writer.run)
    return tuple(found)
