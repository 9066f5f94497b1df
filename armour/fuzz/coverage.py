"""How much of a network's behaviour a set of inputs has tried: the five coverage criteria of its neurons."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import InvalidInput
from .activations import Watched


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares from 0 to 1.

    Args:
        neuron: NC, neurons that were above the threshold once, scaled in each sample and site to 0 to 1.
        k_sections: KMNC, sections of the training ranges that were met.
        boundary: NBC, ends of the training ranges that were exceeded.
        strong_activation: SNAC, upper ends that were exceeded.
        top_k: TKNC, neurons that were among the k largest of their site once.
    """

    neuron: float
    k_sections: float
    boundary: float
    strong_activation: float
    top_k: float


class NeuronCoverage:
    """Gathers coverage over batches; the model is watched by hooks and stays as it is.

    Args:
        watched: The model with the sites to look at.
        training: `(n, ...)` inputs that set each neuron's range.
        threshold: Of NC.
        sections: k of KMNC.
        top: k of TKNC.

    Reference:
        Pei et al. 2017, arXiv:1705.06640 (NC); Ma et al. 2018, arXiv:1803.07519 (all others).
    """

    def __init__(
        self, watched: Watched, training: NDArray[Any], *, threshold: float = 0.5, sections: int = 100, top: int = 2
    ) -> None:
        if sections < 1 or top < 1:
            raise InvalidInput(f"sections and top expect 1 or more, got {sections} and {top}")
        self._watched, self._threshold, self._sections, self._top = watched, threshold, sections, top
        found = watched.neurons(training)[1]
        if not found:
            raise InvalidInput("no site has outputs (n, neurons, ...); name others with sites=")
        self._low = {site: values.min(axis=0) for site, values in found.items()}
        self._high = {site: values.max(axis=0) for site, values in found.items()}
        # By site, for each neuron: above threshold, below range, above range, among the top, then the sections.
        self._seen = {site: np.zeros((v.shape[1], 4 + sections), np.bool_) for site, v in found.items()}

    def add(self, x: NDArray[Any]) -> int:
        """How many marks, over all criteria, the inputs `(n, ...)` met for the first time."""
        before = sum(int(seen.sum()) for seen in self._seen.values())
        for site, values in self._watched.neurons(x)[1].items():
            self._mark(site, values)
        return sum(int(seen.sum()) for seen in self._seen.values()) - before

    def report(self) -> Coverage:
        """The shares so far."""
        every = np.concatenate(list(self._seen.values()))
        return Coverage(
            neuron=float(every[:, 0].mean()),
            k_sections=float(every[:, 4:].mean()),
            boundary=float(every[:, 1:3].mean()),
            strong_activation=float(every[:, 2].mean()),
            top_k=float(every[:, 3].mean()),
        )

    def _mark(self, site: str, values: Floats) -> None:
        seen, low, high = self._seen[site], self._low[site], self._high[site]
        least, most = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
        scaled = (values - least) / np.where(most > least, most - least, 1.0)
        seen[:, 0] |= (scaled > self._threshold).any(axis=0)
        seen[:, 1] |= (values < low).any(axis=0)
        seen[:, 2] |= (values > high).any(axis=0)
        top = min(self._top, values.shape[1])
        seen[np.argpartition(-values, top - 1, axis=1)[:, :top].ravel(), 3] = True
        inside = (values >= low) & (values <= high)
        width = np.where(high > low, high - low, 1.0)
        section = np.clip(((values - low) / width * self._sections).astype(np.int64), 0, self._sections - 1)
        rows, neurons = np.nonzero(inside)
        seen[neurons, 4 + section[rows, neurons]] = True
