"""The share of a network's behaviour that inputs have exercised: activations by hooks, five coverage criteria."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...framework import no_grad
from ...framework.nn import Cell
from ..array_api import Array, Floats, Images, to_numpy
from ..errors import InvalidInput, InvalidModel
from ..model import WrappedModel, wrap

#: Takes a site and its output; a returned array takes the output's place.
OutputCallback = Callable[[str, Images], Images | None]

#: Takes a module, its inputs and its output; an output that it returns takes the place of the computed one.
ForwardHook = Callable[[object, object, Array], Array | None]


class Removable(Protocol):
    """A handle on a hook."""

    def remove(self) -> None:
        """Remove the hook."""


class Hookable(Protocol):
    """A module of any framework that takes forward hooks."""

    def register_forward_hook(self, hook: ForwardHook) -> Removable:
        """Call the hook after each forward pass."""


class Watched:
    """An engine Cell or torch Module with hooks on its leaves.

    Args:
        model: Unwrapped.
        sites: Names of modules; every module without children by default.
        bounds: Of the inputs.
    """

    def __init__(
        self, model: object, sites: tuple[str, ...] | None = None, bounds: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self.model: WrappedModel = wrap(model, bounds=bounds)
        self.raw = model
        self.modules: Mapping[str, Hookable] = _modules(model, sites)

    @contextmanager
    def hooks(self, callback: OutputCallback) -> Iterator[None]:
        """Call `callback` with every output of the sites within the block."""
        handles = [m.register_forward_hook(_hook(site, callback)) for site, m in self.modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def neurons(self, x: Images) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Return logits `(n, classes)`, and by site `(n, neurons)`: each channel's mean, or each unit."""
        found: dict[str, NDArray[np.float64]] = {}

        def callback(site: str, output: Images) -> None:
            if output.ndim >= 2 and len(output) == len(x):
                found[site] = output.reshape(*output.shape[:2], -1).mean(axis=2, dtype=np.float64)

        with self.hooks(callback):
            logits = to_numpy(self.model.logits(self.model.native(x))).astype(np.float64)
        return logits, found


def _modules(model: object, sites: tuple[str, ...] | None) -> dict[str, Hookable]:
    every: dict[str, Hookable]
    if isinstance(model, Cell):
        every = dict(model.cells_and_names())
        leaves = [site for site, cell in model.cells_and_names() if not cell.name_cells()]
    elif hasattr(model, "named_modules"):
        every = dict(model.named_modules())
        leaves = [site for site, module in model.named_modules() if not any(True for _ in module.children())]
    else:
        raise InvalidModel(f"expected an engine Cell or a torch Module, got {type(model).__name__}")
    missing = [site for site in sites or () if site not in every]
    if missing:
        raise InvalidInput(f"no module at {', '.join(missing)}; there are {', '.join(name for name in every if name)}")
    return {site: every[site] for site in (sites or leaves)}


def _hook(site: str, callback: OutputCallback) -> ForwardHook:
    def after(_module: object, _inputs: object, output: Array) -> Array | None:
        if not hasattr(output, "shape"):
            return None
        with no_grad():
            values = output.numpy() if not hasattr(output, "cpu") else output.detach().cpu().numpy()
        changed = callback(site, values)
        if changed is None:
            return None
        return type(output)(changed) if not hasattr(output, "cpu") else output.new_tensor(changed)

    return after


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
    """Coverage gathered over batches; hooks watch the model and leave it unchanged.

    Args:
        watched: The model with the watched sites.
        training: `(n, ...)` inputs that set each neuron's range.
        threshold: Of NC.
        sections: k of KMNC.
        top: k of TKNC.

    Reference:
        Pei et al. 2017, arXiv:1705.06640 (NC); Ma et al. 2018, arXiv:1803.07519 (all others).
    """

    def __init__(
        self, watched: Watched, training: Images, *, threshold: float = 0.5, sections: int = 100, top: int = 2
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
        self._marks = {site: np.zeros((v.shape[1], 4 + sections), np.bool_) for site, v in found.items()}

    def add(self, x: Images) -> int:
        """Count the marks, over all criteria, that the inputs `(n, ...)` met for the first time."""
        before = sum(int(marks.sum()) for marks in self._marks.values())
        for site, values in self._watched.neurons(x)[1].items():
            self._mark(site, values)
        return sum(int(marks.sum()) for marks in self._marks.values()) - before

    def report(self) -> Coverage:
        """Return the shares so far."""
        every = np.concatenate(list(self._marks.values()))
        return Coverage(
            neuron=float(every[:, 0].mean()),
            k_sections=float(every[:, 4:].mean()),
            boundary=float(every[:, 1:3].mean()),
            strong_activation=float(every[:, 2].mean()),
            top_k=float(every[:, 3].mean()),
        )

    def _mark(self, site: str, values: Floats) -> None:
        marks, low, high = self._marks[site], self._low[site], self._high[site]
        least, most = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
        scaled = (values - least) / np.where(most > least, most - least, 1.0)
        marks[:, 0] |= (scaled > self._threshold).any(axis=0)
        marks[:, 1] |= (values < low).any(axis=0)
        marks[:, 2] |= (values > high).any(axis=0)
        top = min(self._top, values.shape[1])
        marks[np.argpartition(-values, top - 1, axis=1)[:, :top].ravel(), 3] = True
        inside = (values >= low) & (values <= high)
        width = np.where(high > low, high - low, 1.0)
        section = np.clip(((values - low) / width * self._sections).astype(np.int64), 0, self._sections - 1)
        rows, neurons = np.nonzero(inside)
        marks[neurons, 4 + section[rows, neurons]] = True
