"""What an engine model and its optimizers tell of themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....framework.context import is_recording
from .quiet import EngineFrame
from .sites import owners_of
from .view import EngineView


class EngineSource:
    """The facts' view of one cell."""

    def __init__(self, model: Any, cells: Mapping[str, Any], view: EngineView) -> None:
        self._model, self._cells, self._view = model, cells, view

    @property
    def optimizers(self) -> Sequence[Any]:
        """Those watched."""
        return self._view.optimizers

    def modules(self) -> Mapping[str, Any]:
        """The cells by site."""
        return self._cells

    def is_recording(self) -> bool:
        """Whether gradients are on."""
        return is_recording()

    def owners(self) -> Sequence[tuple[str, Any, str]]:
        """Site, cell and attribute of every parameter, shared ones under each site."""
        return owners_of(self._cells)

    def memory(self, parameter: Any) -> int:
        """Where its values lie."""
        return id(parameter)  # optimizers move values into arenas, each parameter to a place of its own

    def contents(self) -> Iterator[tuple[str, bytes | memoryview]]:
        """Site and content of every parameter."""
        for name, parameter in zip(self._view.names, self._view.parameters, strict=True):
            array = np.ascontiguousarray(parameter.numpy())
            yield name, array.reshape(-1).view(np.uint8).data if array.size else b""

    def step_count(self, optimizer: Any) -> int | None:
        """The steps that it has made."""
        return int(optimizer.step_count)

    def learning_rates(self) -> Sequence[float]:
        """The rate of every group."""
        return self._view.learning_rates()

    def slots(self, optimizer: Any) -> Sequence[str]:
        """Names of its slots."""
        return tuple(optimizer.slots())

    def frame(self) -> EngineFrame:
        """How to call the model so that nothing is left of the call."""
        return EngineFrame(self._model)
