"""Coverage-guided fuzzing: inputs that show new behaviour are kept and mutated; the corpus survives a kill."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...storage import Json, Outcome
from ...storage.npz_files import read_npz
from ..array_api import Images, to_numpy
from ..contract.attack import Attack
from ..corruptions import CORRUPTIONS, corrupt
from ..errors import InvalidInput
from .neuron_coverage import Coverage, NeuronCoverage, Watched

#: Called after each round with the corpus and its coverage.
Watcher = Callable[["Corpus", Coverage], None]

_LABELS_HOLD: Final = 2  # severity up to which a mutation is taken to keep the label: our choice


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Inputs found so far.

    Args:
        inputs: `(n, ...)` seeds first.
        labels: `(n,)` of the seeds they come from.
        failed: `(n,)` whether the model gives another class.
        rounds: How many rounds of fuzzing made it.
    """

    inputs: Images
    labels: NDArray[np.int64]
    failed: NDArray[np.bool_]
    rounds: int

    def save(self, path: Path) -> None:
        """Write the corpus to the file as a whole."""
        beside = path.with_suffix(".part.npz")
        np.savez_compressed(
            beside, inputs=self.inputs, labels=self.labels, failed=self.failed, rounds=np.int64(self.rounds)
        )
        os.replace(beside, path)

    @classmethod
    def load(cls, path: Path) -> "Corpus":
        """Load a corpus that was saved.

        Raises:
            InvalidInput: The file holds none, or is damaged.
        """
        try:
            arrays = read_npz(path)
            found = cls(arrays["inputs"], arrays["labels"], arrays["failed"], int(arrays["rounds"]))
            lengths = {len(found.inputs), len(found.labels), len(found.failed)}
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise InvalidInput(f"{path} is no corpus of fuzzing ({error}); remove it to start over") from error
        if len(lengths) != 1 or found.inputs.dtype.kind != "f" or found.failed.dtype != bool:
            raise InvalidInput(
                f"{path} must hold one label and one truth value for each input, got {len(found.inputs)} inputs of "
                f"{found.inputs.dtype}, {len(found.labels)} labels, {len(found.failed)} of {found.failed.dtype}; "
                f"remove it to start over"
            )
        return found


@dataclass(frozen=True, slots=True)
class Mutators:
    """The mutations of an input; each is drawn with the same probability.

    Args:
        corruptions: Names of natural transforms, for images.
        attacks: Searches that look for a change within `epsilon`.
        epsilon: Budget of the attacks, in their norms; so small that labels hold.
    """

    corruptions: tuple[str, ...] = field(default_factory=lambda: tuple(sorted(CORRUPTIONS)))
    attacks: tuple[Attack, ...] = ()
    epsilon: float = 0.03

    def __post_init__(self) -> None:
        if not self.corruptions and not self.attacks:
            raise InvalidInput("mutators expect one corruption or attack or more, got none")
        unknown = [name for name in self.corruptions if name not in CORRUPTIONS]
        if unknown:
            raise InvalidInput(f"corruptions are {', '.join(sorted(CORRUPTIONS))}, got {', '.join(unknown)}")


def fuzz(
    watched: Watched,
    coverage: NeuronCoverage,
    x: Images,
    y: ArrayLike,
    *,
    rounds: int = 20,
    mutants: int = 32,
    path: Path | None = None,
    seed: int = 0,
    mutators: Mutators | None = None,
    watcher: Watcher | None = None,
) -> tuple[Corpus, Coverage]:
    """Build a corpus of inputs that cover more than the seeds; return it with its coverage.

    Args:
        watched: The model.
        coverage: Its criteria; what they have seen already does not count as new.
        x: `(n, ..., height, width)` seed images within the bounds of the model.
        y: `(n,)` classes.
        rounds: In all, those of a resumed corpus included.
        mutants: A round.
        path: Where the corpus is saved after each round; one that is there is resumed, with the result that the same
            call would have had without the interruption.
        seed: Round k draws from a stream of its own.
        mutators: Every natural transform by default.
        watcher: Called after each round.
    """
    labels = np.asarray(y)
    if labels.shape != x.shape[:1] or not len(x) or rounds < 0 or mutants < 1:
        raise InvalidInput(
            f"expected seeds with one class each, rounds >= 0, mutants >= 1, got {x.shape}, {labels.shape}"
        )
    if path is not None and path.exists():
        corpus = Corpus.load(path)
    else:
        corpus = Corpus(x, labels.astype(np.int64), _fails(watched, x, labels), 0)
    for row in range(len(corpus.inputs)):
        coverage.add(corpus.inputs[row : row + 1])
    chosen = mutators or Mutators()
    for number in range(corpus.rounds, rounds):
        corpus = _round(watched, coverage, corpus, mutants, np.random.default_rng((seed, number)), chosen)
        if path is not None:
            corpus.save(path)
        if watcher is not None:
            watcher(corpus, coverage.report())
    return corpus, coverage.report()


def _round(
    watched: Watched,
    coverage: NeuronCoverage,
    corpus: Corpus,
    mutants: int,
    generator: np.random.Generator,
    mutators: Mutators,
) -> Corpus:
    parents = generator.integers(len(corpus.inputs), size=mutants)
    kinds = generator.integers(len(mutators.corruptions) + len(mutators.attacks), size=mutants)
    found = corpus.inputs[parents].copy()
    for row, kind in enumerate(kinds):
        severity, seed = int(generator.integers(1, _LABELS_HOLD + 1)), int(generator.integers(2**31))
        if kind < len(mutators.corruptions):
            name, bounds = mutators.corruptions[kind], watched.model.bounds
            found[row : row + 1] = corrupt(found[row : row + 1], name, severity, seed=seed, bounds=bounds)
    for number, attack in enumerate(mutators.attacks):
        rows = np.flatnonzero(kinds == len(mutators.corruptions) + number)
        if len(rows):
            seed, labels = int(generator.integers(2**31)), corpus.labels[parents[rows]]
            result = attack(watched.model, found[rows], labels, epsilons=mutators.epsilon, seed=seed)
            found[rows] = to_numpy(result.adversarials[0])
    failed = _fails(watched, found, corpus.labels[parents])
    new = np.array([coverage.add(found[row : row + 1]) > 0 for row in range(mutants)])
    return Corpus(
        np.concatenate([corpus.inputs, found[new]]),
        np.concatenate([corpus.labels, corpus.labels[parents[new]]]),
        np.concatenate([corpus.failed, failed[new]]),
        corpus.rounds + 1,
    )


def _fails(watched: Watched, x: Images, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(watched.neurons(x)[0].argmax(axis=1) != labels, np.bool_)


def coverage_outcome(before: Coverage, after: Coverage, corpus: Corpus, seeds: int, curve: Sequence[Json]) -> Outcome:
    """Return the outcome of fuzzing; accuracy is the share of the corpus that keeps its seed's label.

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


def _shares(coverage: Coverage) -> dict[str, Json]:
    return {name: getattr(coverage, name) for name in Coverage.__slots__}
