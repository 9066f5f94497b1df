"""Shows the primitives that the engine evaluates to a `NanTrace`: the table tells what it runs."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....framework.nn.cell import Cell
from ....framework.primitive import PRIMITIVES
from ...nan_trace import NanTrace
from ...recording.recorder import Recorder
from ...taps.handles import Several
from .sites import CellSites
from .view import place_of_array


class EngineTracer:
    """Traces a model's process; `remove()` puts the table back.

    Every primitive evaluated between the model's forward and the optimizer's step is seen, those of the loss included.
    Compiled functions run kernels of their own and are not seen from inside.
    """

    def __init__(self, model: Cell, recorder: Recorder) -> None:
        self.trace = NanTrace(recorder, place_of_array, lambda: (one.numpy() for one in model.trainable_params()), ())
        self._recorder = recorder
        self._originals = {name: primitive.evaluate for name, primitive in PRIMITIVES.items()}
        for name, primitive in PRIMITIVES.items():
            primitive.evaluate = self._shown(name, primitive.evaluate)
        self._beginning = model.register_forward_pre_hook(self._begin)
        self._places = CellSites(model)
        self._handles: dict[str, Several] = {}
        self._follow(self._places.modules)

    def remove(self) -> None:
        """Takes everything off."""
        for name, evaluate in self._originals.items():
            PRIMITIVES[name].evaluate = evaluate
        self._beginning.remove()
        for handle in self._handles.values():
            handle.remove()

    def backward_begins(self, loss: float | None) -> None:
        """What follows belongs to the backward pass."""
        if loss is not None and not np.isfinite(loss):
            self.trace.loss_is_bad(["the loss"])
        self.trace.phase = "backward"
        self.trace.sites.clear()

    def _shown(self, name: str, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        trace = self.trace

        def run(*inputs: Any, **attributes: Any) -> Any:
            result = evaluate(*inputs, **attributes)
            if self._recorder.current.is_open and trace.is_looking:
                outputs = result if isinstance(result, tuple) else (result,)
                trace.operation(name, _floating(inputs), _floating(outputs))
            return result

        return run

    def _begin(self, _cell: Any, _inputs: Any) -> None:
        if self._places.has_changed():
            self._follow(self._places.look())

    def _follow(self, changed: Iterable[str]) -> None:
        """Nothing; at these sites there are other cells than before, or none any more."""
        cells = self._places.modules
        for site in changed:
            if site in self._handles:
                self._handles.pop(site).remove()
            if site in cells:
                before = cells[site].register_forward_pre_hook(self._entering(site))
                self._handles[site] = Several([before, cells[site].register_forward_hook(self._left)])

    def _entering(self, site: str) -> Callable[[Any, Any], None]:
        def enter(_cell: Any, _inputs: Any) -> None:
            if not site or not self.trace.sites:
                self.trace.phase = "forward"
            self.trace.sites.append(site)

        return enter

    def _left(self, _cell: Any, _inputs: Any, _output: Any) -> None:
        if self.trace.sites:
            self.trace.sites.pop()
        if not self.trace.sites:
            self.trace.phase = "loss"


def _floating(values: Iterable[Any]) -> Iterator[NDArray[Any]]:
    """The floating-point arrays among the values; reductions give scalars."""
    for value in values:
        if isinstance(value, np.ndarray | np.generic) and (value.dtype.kind == "f" or value.dtype.name == "bfloat16"):
            yield np.asarray(value)
