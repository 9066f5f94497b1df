"""Activations of a model's modules, gathered by forward hooks that are gone afterwards; the model is not changed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...framework import no_grad
from ...framework.nn import Cell
from ..arrays import to_numpy
from ..errors import InvalidInput, InvalidModel
from ..model import Model, wrap

#: Takes a site and its output; a returned array takes the output's place.
Look = Callable[[str, NDArray[Any]], NDArray[Any] | None]


class Watched:
    """An engine Cell or torch Module with hooks on its leaves.

    Args:
        model: Unwrapped.
        sites: Names of modules; every module without children by default.
        bounds: Of the inputs.
    """

    def __init__(
        self, model: Any, sites: tuple[str, ...] | None = None, bounds: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self.model: Model = wrap(model, bounds=bounds)
        self.raw = model
        self.modules: Mapping[str, Any] = _modules(model, sites)

    @contextmanager
    def hooks(self, look: Look) -> Iterator[None]:
        """A block in which `look` sees every output of the sites."""
        handles = [m.register_forward_hook(_hook(site, look)) for site, m in self.modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def neurons(self, x: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Logits `(n, classes)`, and by site `(n, neurons)`: the mean over places of each channel, or each unit."""
        found: dict[str, NDArray[np.float64]] = {}

        def look(site: str, output: NDArray[Any]) -> None:
            if output.ndim >= 2 and len(output) == len(x):
                found[site] = output.reshape(*output.shape[:2], -1).mean(axis=2, dtype=np.float64)

        with self.hooks(look):
            logits = to_numpy(self.model.logits(self.model.native(x))).astype(np.float64)
        return logits, found


def _modules(model: Any, sites: tuple[str, ...] | None) -> dict[str, Any]:
    every: dict[str, Any]
    if isinstance(model, Cell):
        every = dict(model.cells_and_names())
        leaves = [site for site, cell in every.items() if not cell.name_cells()]
    elif hasattr(model, "named_modules"):
        every = dict(model.named_modules())
        leaves = [site for site, module in every.items() if not any(True for _ in module.children())]
    else:
        raise InvalidModel(f"expected an engine Cell or a torch Module, got {type(model).__name__}")
    missing = [site for site in sites or () if site not in every]
    if missing:
        raise InvalidInput(f"no module at {', '.join(missing)}; there are {', '.join(name for name in every if name)}")
    return {site: every[site] for site in (sites or leaves)}


def _hook(site: str, look: Look) -> Callable[[Any, Any, Any], Any]:
    def after(_module: Any, _inputs: Any, output: Any) -> Any:
        if not hasattr(output, "shape"):
            return None
        with no_grad():
            values = output.numpy() if not hasattr(output, "cpu") else output.detach().cpu().numpy()
        changed = look(site, values)
        if changed is None:
            return None
        return type(output)(changed) if not hasattr(output, "cpu") else output.new_tensor(changed)

    return after
