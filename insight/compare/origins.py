"""From what two trainings began, and what they were fed: checksums tell it exactly, so that no number has to."""

import math
from collections.abc import Iterator
from typing import Final

from ...storage import ROOT_SITE, Json, Run, Series, Store
from .differences import Difference

__all__ = ["GENERATOR", "origins"]

#: How the name of a difference between the states of two generators begins; their own name follows.
GENERATOR: Final = "random state of "
#: Of every batch that the model was called with, and of its labels.
_FED = (("scalar/batch/checksum", "the batch"), ("scalar/target/checksum", "the labels"))
#: Points of a series that are read; of a longer one a sample of its steps. Our choice: some tens of megabytes.
_LOOKED_AT = 1_000_000


def origins(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int]) -> tuple[Difference, ...]:
    """The first weights, the states of the generators, and the first batch and labels that are not the same.

    What only one of the runs has recorded is no difference.
    """
    return (*_starts(stores, runs, ranks), *_fed(stores, runs, ranks))


def _starts(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int]) -> Iterator[Difference]:
    one, other = (dict(_start(store, run, rank)) for store, run, rank in zip(stores, runs, ranks, strict=True))
    for name in [name for name in one if name in other]:
        if one[name] != other[name]:
            yield Difference("start", name, one[name], other[name])


def _start(store: Store, run: Run, rank: int) -> Iterator[tuple[str, Json]]:
    """The checksums that the run began with, by what they are of."""
    for event in store.events(run.id, rank=rank, kind="initial_checksum", limit=1):
        yield "initial weights", event.data.get("checksum")
    for event in store.events(run.id, rank=rank, kind="random_state", limit=1):
        generators = event.data.get("generators")
        for name, state in generators.items() if isinstance(generators, dict) else ():
            yield f"{GENERATOR}{name}", state


def _fed(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int]) -> Iterator[Difference]:
    for metric, name in _FED:
        one, other = (
            _by_step(store.series(run.id, ROOT_SITE, metric, rank=rank, limit=_LOOKED_AT))
            for store, run, rank in zip(stores, runs, ranks, strict=True)
        )
        shared = sorted(one.keys() & other.keys())
        odd = [step for step in shared if one[step] != other[step]]
        if odd:
            note = f"{len(odd)} of the {len(shared)} steps that both recorded differ"
            yield Difference("data", f"{name} of step {odd[0]}", one[odd[0]], other[odd[0]], note)


def _by_step(series: Series) -> dict[int, str]:
    """The checksums of a step, one a micro-step, as they are usually written."""
    found: dict[int, list[str]] = {}
    for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
        found.setdefault(step, []).append(f"{int(value):x}" if math.isfinite(value) else "nothing")
    return {step: " ".join(words) for step, words in found.items()}
